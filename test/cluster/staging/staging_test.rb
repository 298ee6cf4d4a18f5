# frozen_string_literal: true

require "minitest/autorun"
require_relative "../staging_case"

# Hosts that share no file system: each file goes over the links once, and the mosaic is what it is without hosts. What
# else is staged in, what is staged out, and what the next run finds is tested in ../../near, on one machine.
class ClusterStagingTest < ClusterStagingCase
  PARTS = StagedFiles.parts("$(hostname)")

  def test_each_file_goes_once_to_each_node_and_what_was_asked_for_comes_home
    contents = inputs(4, 200_000)
    result = rakuda(PARTS, "NOTES=#{@notes}")
    assert_equal [0, ""], [result.status, result.err]
    assert_equal digest_of_parts(contents), read("result")
    assert_equal(transfers.uniq { |file, _, to| [file, to] }, transfers)
    assert_equal([%w[result home]], transfers.filter_map { |file, _, to| [file, to] if to == "home" })
    to_nodes = transfers.select { |file, _, to| file.start_with?("in/") && to != "home" }
    assert_operator to_nodes.size, :<=, 8, "4 inputs, 2 nodes"
    made_on = notes.to_h
    from = transfers.select { |file,| file.start_with?("out/") }
    assert_equal(from.map { |file, node, _| [file, node] }, from.map { |file,| [file, made_on.fetch(file)] })
    assert_equal "", @testbed.run!("head", "sh", "-c", "find out -type f", chdir: @folder), "parts stay where they were made"
  end

  # Programs open weights beside each image by themselves, list folders, and Ruby code renames what they have made.
  def test_the_mosaic_is_the_same_where_hosts_share_nothing
    example = File.expand_path("../../../examples/montage", __dir__)
    @testbed.run!("head", "sh", "-c", "cp #{example}/Rakefile #{example}/*.rb .", chdir: @folder)
    words = ["-q", "N=3", "PIX=128"]
    digests = [["work", []], ["there", ["-F", "hosts", "--filesystem", "local"]]].map do |work, options|
      result = @testbed.run("head", RAKUDA, *words, *options, "WORK=#{work}", chdir: @folder)
      assert_equal [0, ""], [result.status, result.err]
      @testbed.run!("head", "sha256sum", "#{work}/mosaic.fits", chdir: @folder).split.first
    end
    assert_equal 1, digests.uniq.size
    projected = @testbed.run!("head", "sh", "-c", "ls -d there/projected/* 2>/dev/null; true", chdir: @folder)
    assert_empty projected, "tiles stay where they were made"
    assert_operator staged.count { |event| event["companions"] }, :>, 0
  end
end
