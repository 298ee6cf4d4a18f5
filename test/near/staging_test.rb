# frozen_string_literal: true

require "minitest/autorun"
require_relative "near_staging_case"

# Hosts that share no file system: what is staged in where, what is staged out, and what the next run finds. What only links
# show is in ../cluster/staging, which strikes them, too.
class NearStagingTest < NearStagingCase
  PARTS = StagedFiles.parts("$NEAR_HOST")

  def parts(*words) = rakuda(PARTS, *words, "NOTES=#{@notes}")

  def test_the_next_run_knows_what_nodes_have_and_asks_whether_they_still_have_it
    contents = inputs(4, 1000)
    assert_equal 0, parts.status
    assert_equal 8, notes.size
    again = parts
    assert_equal [0, ""], [again.status, again.err]
    assert_equal 8, notes.size, "nothing ran"
    remove("result")
    assert_equal 0, parts.status
    assert_equal [8, digest_of_parts(contents)], [notes.size, read("result")], "of what was there"
    part, host = notes.last
    remove("result")
    assert_includes files_on(host), part
    remove_on_hosts(part)
    contents["in/3"] = "other"
    write("in/3", "other")
    assert_equal 0, parts.status
    assert_equal digest_of_parts(contents), read("result")
    rest = notes.drop(8).map(&:first)
    assert_equal (["out/2", "out/5"] | [part]).sort, rest.sort, "what reads in/3, and what was not there"
    write("hosts", "host3 2\n")
    remove("result")
    assert_equal 0, parts.status
    assert_equal digest_of_parts(contents), read("result"), "made again where the nodes are not there"
  end

  def test_copies_take_no_more_than_their_bound
    write("hosts", "host1 1\n")
    contents = inputs(7, 100_000)
    result = rakuda(<<~'RUBY', "--stage-cache", "250K", "NOTES=#{@notes}")
      made = (0..6).map { |number| "out#{number}" }
      task default: made
      made.each_with_index do |name, number|
        file(name => "in/#{number}") { |t| sh "sha256sum < #{t.source} > #{t.name}; echo $(ls i*) >> #{ENV.fetch('NOTES')}/log" }
      end
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal(contents.values.map { |content| digest(content) }, (0..6).map { |number| read("out#{number}") })
    assert_equal 2, notes.map(&:size).max, "two copies of 100,000 bytes, not three"
    too_large = rakuda(<<~'RUBY', "--stage-cache", "250K")
      file("all" => ["in/0", "in/1", "in/2"]) { |t| sh "cat in/0 in/1 in/2 > all" }
      task default: "all"
    RUBY
    assert_equal 1, too_large.status
    assert_match(/the inputs of all, .*, take 300000 bytes, and copies on node host1 may take 256000: see/, too_large.err)
  end

  def test_targets_come_home_where_patterns_or_settings_say_so
    inputs(1, 10)
    rakefile = <<~'RUBY'
      file("sizes.txt" => "in/0") { |t| sh "wc -c < in/0 > sizes.txt" }
      file("middle" => "in/0") { |t| sh "cp in/0 middle" }
      file("end" => %w[sizes.txt middle]) { |t| sh "cat sizes.txt middle > end" }
      task(default: "end")
    RUBY
    result = rakuda(rakefile, "STAGE_HOME=*.txt")
    assert_equal [0, "", ["sizes.txt"]], [result.status, result.err, at_home("middle", "sizes.txt")]
    remove(".rakuda", "sizes.txt", "end")
    result = rakuda(rakefile, "STAGE_OUTPUTS=home")
    assert_equal [0, "", %w[middle sizes.txt]], [result.status, result.err, at_home("middle", "sizes.txt")]
  end

  def test_ruby_code_of_actions_finds_what_commands_have_made_and_commands_what_it_has_written
    result = rakuda(<<~'RUBY', "-j", "1")
      file "made" do |t|
        mkdir_p "some/where", verbose: false
        File.write("some/where/script", "echo $(cat words) > made.part")
        File.open("words", "w") { |file| file << "first" }
        sh "sh some/where/script"
        raise "it is on the node" unless File.size("made.part") == 6
        File.open("words", "a") { |file| file << " second" }
        sh "echo third >> words; sh some/where/script"
        puts File.read("words"), File.read("made.part")
        rm "words", verbose: false
        sh "test -e made.part && echo still"
        mv "made.part", t.name, verbose: false
      end
      file("read" => "made") { |t| File.write(t.name, File.read("made").upcase) }
      task default: "read"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal ["first secondthird", "first secondthird", "still"], result.out.lines(chomp: true)
    assert_equal "FIRST SECONDTHIRD\n", read("read")
  end

  def test_what_the_words_of_a_command_name_is_brought_too
    inputs(2, 1000)
    write("tool.sh", "wc -c < $1")
    result = rakuda(<<~'RUBY')
      directory "logs"
      file("first" => "in/0") { sh "cp in/0 first" }
      file("second" => %w[first logs]) { sh "sh tool.sh in/1 > second; cmp first in/0" }
      file("third" => "second") { sh "cat", "first", out: "logs/third"; sh "cp logs/third third" }
      task default: "third"
    RUBY
    assert_equal 0, result.status, result.err
    assert_equal read("in/0"), read("third")
    assert_equal(transfers.uniq { |file, _, to| [file, to] }, transfers)
  end

  def test_this_machine_may_take_part
    contents = inputs(2, 1000)
    write("hosts", "localhost 2\nhost1 2\n")
    result = rakuda(<<~'RUBY')
      desc "allow=host1"
      file("there" => "in/0") { sh "cp in/0 there; test $NEAR_HOST = host1" }
      desc "deny=host1"
      file("here" => %w[there in/1]) { sh "cat there in/1 > here; test -z $NEAR_HOST" }
      desc "allow=host1"
      file("result" => "here") { sh "sha256sum < here > result" }
      task default: "result"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal digest(*contents.values), read("result")
    assert_equal [%w[in/0 home host1], %w[there host1 home], %w[here home host1], %w[result host1 home]], transfers
  end

  def test_what_an_action_renames_on_its_node_stays_there
    inputs(1, 1000)
    result = rakuda(<<~'RUBY')
      file "made" => "in/0" do |t|
        sh "cp in/0 made.part; echo x > rest"
        File.rename("made.part", t.name)
        File.delete("rest")
        raise "it looks as if it were here" unless File.exist?("rest") == false
      end
      file("end" => "made") { |t| sh "wc -c < made > end" }
      task default: "end"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "1000\n", read("end")
    assert_empty at_home("made*", "rest")
    assert_equal %w[end in/0 made], (files_on("host1") + files_on("host2")).uniq.sort
  end

  def test_a_target_made_in_ruby_is_brought_to_who_reads_it
    result = rakuda(<<~'RUBY')
      file("list") { |t| File.write(t.name, "a b c") }
      file("count" => "list") { |t| sh "wc -w < list > count" }
      task default: "count"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "3\n", read("count")
    assert_equal [["list", "home"], ["count", "home"]], [transfers[0][0, 2], transfers[1].values_at(0, 2)]
  end

  def test_commands_find_their_folders_and_permissions_are_kept
    write("in/tool", "#!/bin/sh\necho made by $0\n")
    @run.make_executable("in/tool")
    result = rakuda(<<~'RUBY')
      file "deep/er/made" => "in/tool" do |t|
        sh "in/tool > #{t.name}"
        cd("in", verbose: false) { sh "pwd >> ../#{t.name}" }
      end
      task default: "deep/er/made"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_match(%r{\Amade by in/tool\n\S+/host\d/rakuda-\d+/files/\h{16}/in\n\z}, read("deep/er/made"))
    refute_predicate File.stat(@run.path("deep/er/made")), :executable?
  end

  def test_what_cannot_be_brought_is_named_with_the_reason
    inputs(1, 10)
    write("hosts", "host1 1\n")
    result = rakuda(<<~'RUBY')
      file("folder" => "in/0") { sh "mkdir folder; cp in/0 folder" }
      file("made" => "folder") { sh "cp folder/0 made" }
      task default: "made"
    RUBY
    assert_equal [0, ""], [result.status, result.err], "on one node nothing has to be brought"
    outside = rakuda(<<~'RUBY')
      file("made2" => "../hosts-elsewhere") { sh "cp ../hosts-elsewhere made2" }
      file("../hosts-elsewhere") { |t| File.write(t.name, "") }
      task default: "made2"
    RUBY
    assert_equal 1, outside.status
    assert_match(/cannot copy .*hosts-elsewhere to node host1: it lies outside of the run's folder/, outside.err)
    asked = rakuda("task(default: 'folder')\nfile('folder') { sh 'true' }")
    assert_equal 1, asked.status
    why = /Rakuda::StagingFailed: cannot copy folder from node host1 to this machine: failed to read .+: it is a folder/
    assert_match(why, asked.err)
  end

  def test_what_someone_else_has_removed_from_a_node_is_named
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      require "rake"
      task default: "second"
      desc "allow=host1"
      file("first") { sh "echo 1 > first" }
      desc "allow=host1"
      file("gone" => "first") { sh "rm first; echo 2 > gone" }
      desc "allow=host2"
      file("second" => %w[first gone]) { sh "cat first gone > second" }
    RUBY
    assert_equal 1, result.status
    why = /cannot copy first from node host1 to node host2: failed to open .+first: No such file.+; see that it stays there/
    assert_match(why, result.err)
  end
end
