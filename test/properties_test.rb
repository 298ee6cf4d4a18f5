# frozen_string_literal: true

require "minitest/autorun"
require "rakuda"

class PropertiesTest < Minitest::Test
  def parse(text)
    Rakuda::Properties.parse(text)
  end

  def test_plain_description_has_no_properties
    assert_nil parse("Build all. Uses CFLAGS=-O2")
    assert_nil parse(nil)
  end

  def test_pwrakes_words_become_fields_of_the_protocol
    assert_equal({ "cores" => 2, "exclusive" => true, "retry" => 3 }, parse("Mosaic ncore=2 exclusive=yes retry=3"))
    assert_equal({ "allow" => ["h1*", "h2"], "deny" => ["h3"], "order" => "deny,allow" },
                 parse("allow=h1*,h2 deny=h3 order=deny,allow"))
    assert_equal({ "steal" => false, "reserve" => true }, parse("steal=no reserve=on"))
  end

  def test_memory_and_resources_have_units_and_counts
    assert_equal({ "memory_bytes" => 4 << 30, "resources" => { "gpu" => 2, "licence" => 1 } },
                 parse("memory=4G resource=gpu:2 resource=licence"))
  end

  def test_bytes_are_written_as_they_are_read
    texts = %w[0 100 1000K 200M 1500M 8G 16777215T]
    assert_equal(texts, texts.map { |text| Rakuda::Properties.text_of_bytes(Rakuda::Properties.bytes(text)) })
  end

  def test_wrong_value_is_explained
    error = assert_raises(Rakuda::ConfigurationError) { parse("ncore=two") }
    assert_equal "ncore=two: expected a whole number from 1 to 4294967295", error.message
  end

  def test_word_without_a_meaning_is_told_and_the_others_hold
    told = []
    text = "Retry flaky ones with retry=N ncore=2 order=any memory=x ncore=0 retry=4294967296 resource=:2"
    properties = Rakuda::Properties.parse(text) { |complaint| told << complaint }
    assert_equal({ "cores" => 2 }, properties)
    assert_equal 6, told.size, told.inspect
  end
end
