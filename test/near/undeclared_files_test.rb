# frozen_string_literal: true

require "json"
require "minitest/autorun"
require_relative "near_staging_case"

# What commands write beside their targets, and what lies in folders that tasks name, where hosts share no file system
# and nobody has declared it.
class UndeclaredFilesTest < NearStagingCase
  # Each tile has a file of weights beside it, which no task names; `sum` reads all of them by itself. No tile is made
  # before both hosts have begun one.
  TILES = <<~'RUBY'
    notes = ENV.fetch("NOTES")
    both = "echo $NEAR_HOST >> #{notes}/begun; until test $(sort -u #{notes}/begun | wc -l) -ge 2; do sleep 0.05; done"
    directory "tiles"
    tiles = (0..5).map { |number| "tiles/tile_#{number}.fits" }
    tiles.each_with_index do |tile, number|
      file tile => ["in/#{number}", "tiles"] do |t|
        sh "#{both}; cp in/#{number} #{t.name}; rev in/#{number} > #{t.name.ext}_area.fits; echo #{t.name} $NEAR_HOST >> #{notes}/log"
      end
    end
    file("sum" => tiles) { sh "cat tiles/tile_?.fits tiles/tile_?_area.fits | sha256sum > sum" }
    task default: "sum"
  RUBY

  def tiles(*words) = rakuda(TILES, *words, "NOTES=#{@notes}")

  def expected(contents) = digest(*contents.values, *contents.values.map { |content| "#{content.reverse}" })

  def test_what_commands_write_beside_a_target_goes_where_it_goes
    contents = inputs(6, 1000)
    result = tiles
    assert_equal [0, ""], [result.status, result.err]
    assert_equal expected(contents), read("sum")
    assert_equal 2, notes.map(&:last).uniq.size, "else nothing had to be brought"
    brought = staged.select { |event| event["task"].start_with?("tiles/") }
    refute_empty brought
    assert_equal([[1, 2000]], brought.map { |event| event.values_at("companions", "bytes") }.uniq)
    assert_empty at_home("tiles/*")
    told = @run.ctl("story", "sum")
    from, to = brought.first.values_at("from", "to")
    assert_match(/  #{brought.first["task"]} was copied from #{from} to #{to}, 1 file beside it: 2\.00 kB in /, told)
    report = JSON.parse(@run.ctl("report", "--json"))
    files = staged.sum { |event| 1 + event["companions"].to_i }
    assert_equal [files, staged.sum { |event| event["bytes"] }], report.values_at("staged_files", "staged_bytes")
  end

  def test_secondary_files_come_home_with_what_was_asked_for_and_are_missed_when_they_are_not_there
    inputs(1, 1000)
    rakefile = <<~'RUBY'
      file("a.fits" => "in/0") { sh "cp in/0 a.fits; echo weights > a_area.fits; echo x > b.log; echo done >> #{ENV.fetch("NOTES")}/log" }
      file("end" => "a.fits") { sh "cat a_area.fits > end" }
      task default: "a.fits"
    RUBY
    run = -> { rakuda(rakefile, "NOTES=#{@notes}", *@wanted) }
    assert_equal 0, run.call.status
    assert_equal %w[a.fits a_area.fits], at_home("a*", "b*"), "b.log has another name"
    assert_equal [0, 1], [run.call.status, notes.size], "all is there"
    remove("a_area.fits")
    @wanted = ["end"]
    assert_equal 0, run.call.status
    assert_equal ["weights\n", 1], [read("end"), notes.size], "a node has them"
    remove("a_area.fits", "end")
    FileUtils.rm_r(Dir.glob(File.join(@base, "host*/rakuda-*/files")))
    assert_equal 0, run.call.status
    assert_equal ["weights\n", 2], [read("end"), notes.size], "they are nowhere, so both are made again"
  end

  def test_a_target_that_ruby_code_touches_goes_to_what_commands_have_written
    inputs(1, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      desc "allow=host1"
      file "ref.indexed" => "in/0" do |t|
        sh "rev in/0 > ref.1.idx; echo second > ref.2.idx"
        touch t.name, verbose: false
      end
      desc "allow=host2"
      file("found" => "ref.indexed") { sh "cat ref.1.idx ref.2.idx > found" }
      task default: "found"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "#{read("in/0").reverse}second\n", read("found")
    assert_empty at_home("*.idx")
  end

  def test_each_file_beside_targets_goes_with_the_one_whose_name_is_most_like_it
    inputs(1, 10)
    write("hosts", "host1 3\nhost2 1\n")
    result = rakuda(<<~'RUBY', "NOTES=#{@notes}")
      notes = ENV.fetch("NOTES")
      # All run at the same time, and each writes while the others run.
      %w[out/a out/a_1 out/b].each do |stem|
        desc "allow=host1"
        file "#{stem}.fits" => "in/0" do |t|
          sh "echo x >> #{notes}/log; until test $(wc -l < #{notes}/log) -ge 3; do sleep 0.05; done; " \
             "echo #{stem} > #{stem}.fits; echo #{stem} > #{stem}_area.fits; echo >> #{notes}/written; " \
             "until test $(wc -l < #{notes}/written) -ge 3; do sleep 0.05; done"
        end
      end
      desc "allow=host2"
      file("list" => "out/a.fits") { sh "ls o*t > list" }
      task default: ["list", "out/a_1.fits", "out/b.fits"]
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal %w[a.fits a_area.fits], read("list").split
    assert_equal %w[out/a_1.fits out/a_1_area.fits out/b.fits out/b_area.fits], at_home("out/*")
  end

  def test_a_folder_that_a_task_names_comes_with_what_is_known_in_it
    inputs(2, 100)
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      directory "made"
      2.times do |number|
        desc "allow=host1"
        file "made/#{number}.x" => ["in/#{number}", "made"] do |t|
          sh "ls made > #{t.name}; cat in/#{number} > made/#{number}.y"
        end
      end
      desc "allow=host2"
      file "made/2.x" => ["made/0.x", "made/1.x", "made"] do |t|
        sh "ls made > #{t.name}"
      end
      task both: %w[made/0.x made/1.x]
      desc "allow=host2"
      file("listed" => "both.done") { |t| sh "ls made | tr '\\n' ' ' > listed" }
      desc "allow=host2"
      file("counted" => ["both.done", "made"]) { |t| sh "cat */*.y | wc -c > counted" }
      file("both.done" => :both) { |t| touch t.name, verbose: false }
      task default: %w[listed counted]
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "0.x 0.y 1.x 1.y", read("listed").strip, "the command names it"
    assert_equal "200\n", read("counted"), "it is a prerequisite"
  end

  def test_the_folder_of_the_own_target_is_not_brought
    inputs(2, 100)
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      directory "out"
      desc "allow=host1"
      file("out/first" => ["in/0", "out"]) { sh "cp in/0 out/first" }
      task go: "out/first"
      desc "allow=host2"
      file("out/second" => ["in/1", "out"]) { Rake::Task["go"].invoke; sh "ls out > out/second" }
      task default: "out/second"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "second\n", read("out/second")
  end

  def test_ruby_code_sees_and_renames_secondary_files_without_bringing_them_here
    inputs(1, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      desc "allow=host1"
      file "a.fits" => "in/0" do |t|
        sh "cp in/0 a.part.fits; echo weights > a.part_area.fits"
        raise "it is on the node" unless File.exist?("a.part_area.fits") && File.file?("a.part_area.fits")
        File.rename("a.part_area.fits", "a_area.fits")
        File.rename("a.part.fits", "a.fits")
        raise "it was renamed" if File.exist?("a.part_area.fits")
      end
      desc "allow=host2"
      file "b.fits" => "a.fits" do |t|
        sh "wc -c < a_area.fits > b.fits"
        raise "it is elsewhere" unless File.exist?("a_area.fits") && File.read("a_area.fits") == "weights\n"
      end
      task default: "b.fits"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "8\n", read("b.fits")
    assert_equal %w[a.fits a_area.fits], files_on("host1").grep(/\Aa/)
    assert_equal %w[a_area.fits], at_home("a*"), "only what was read"
  end

  def test_what_was_read_here_can_be_renamed_on_its_node
    inputs(1, 1000)
    result = rakuda(<<~'RUBY')
      file "a" => "in/0" do |t|
        sh "cp in/0 a.part"
        raise "it is empty" if File.read("a.part").empty?
        File.rename("a.part", "a")
        sh "echo more >> a"
        File.write("b.part", "words")
        sh "cat b.part >> a; cp b.part c.part"
        File.read("c.part")
        File.delete("c.part")
        sh "test ! -e c.part && test ! -e a.part"
      end
      task default: "a"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal "more\nwords", read("a")[1000..]
  end

  def test_a_folder_that_ruby_code_and_commands_have_filled_can_be_renamed
    inputs(1, 1000)
    write("hosts", "host1 1\nhost2 1\n")
    result = rakuda(<<~'RUBY')
      desc "allow=host1"
      file "data/set.main" => "in/0" do
        mkdir_p "data.part", verbose: false
        sh "cp in/0 data.part/set.main; rev in/0 > data.part/set.reversed"
        File.rename("data.part", "data")
      end
      desc "allow=host2"
      file("found" => "data/set.main") { sh "cat data/set.* > found" }
      task default: "found"
    RUBY
    assert_equal [0, ""], [result.status, result.err]
    assert_equal read("in/0") + read("in/0").reverse, read("found")
    assert_equal %w[data/set.main data/set.reversed in/0], files_on("host1")
  end

  def test_more_files_than_may_go_with_a_target_are_told_of
    inputs(1, 10)
    result = rakuda(<<~'RUBY')
      file("a.x" => "in/0") { sh "cp in/0 a.x; for i in $(seq 101); do echo > a.$i; done" }
      task default: "a.x"
    RUBY
    assert_equal 0, result.status
    assert_match(/more than 100 files .* lie beside a.x under names like its own: only the first 100 by name go/, result.err)
    assert_equal 101, at_home("a.*").size
  end

  def test_the_next_run_knows_secondary_files
    contents = inputs(6, 1000)
    assert_equal 0, tiles.status
    made_on = notes.to_h
    remove("sum")
    assert_equal 0, tiles.status
    assert_equal [6, expected(contents)], [notes.size, read("sum")], "all was there"
    tile, host = made_on.first
    remove_on_hosts("#{tile.delete_suffix(".fits")}_area.fits")
    remove("sum")
    assert_equal 0, tiles.status
    assert_equal [tile], notes.drop(6).map(&:first), "without its secondary file it is missing on #{host}"
    assert_equal expected(contents), read("sum")
  end
end
