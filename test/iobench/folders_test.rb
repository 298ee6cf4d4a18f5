# frozen_string_literal: true

require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require "rakuda/bench/catalogue"
require "rakuda/bench/measured"
require "rakuda/bench/options"
require "rakuda/bench/results"
require "rakuda/bench/workspace"
require "support/bench_folder"
require "support/waiting"

# Folders that `rakudactl bench` writes into: what was there stays, results of other conditions stay, one command at a
# time.
class BenchFoldersTest < Minitest::Test
  include BenchFolder
  include Waiting

  # A task that computes for the time that --scale-time 1 gives it.
  def self.workflow(seconds, bytes = 5)
    task = { "id" => "a", "name" => "a", "parents" => [], "inputFiles" => ["in"], "outputFiles" => ["a"] }
    { "name" => "w", "workflow" => {
      "specification" => { "tasks" => [task],
                           "files" => [{ "id" => "in", "sizeInBytes" => 7 }, { "id" => "a", "sizeInBytes" => bytes }] },
      "execution" => { "tasks" => [{ "id" => "a", "runtimeInSeconds" => seconds }] }
    } }
  end

  def ran(*words, **more)
    out, err, status = bench(*words, **more)
    assert status.success?, out + err
    out + err
  end

  def refused(*words, with: 2, **more)
    out, err, status = bench(*words, **more)
    assert_equal with, status.exitstatus, out + err
    err
  end

  def small = File.write(at("w.json"), JSON.generate(self.class.workflow(0.0)))

  def test_results_do_not_lie_where_files_are_removed
    File.symlink(@folder, at("link"))
    { "same" => "same", "same/results" => "same", "link/same/results" => "same", "one" => "." }.each do |out, dir|
      assert_match(/lies in --dir #{dir}/, refused("run", "metadata", "--dir", dir, "--out", out))
      assert_match(/lies in --dir #{dir}/, refused("compare", "copyfile", "--engines", "make", "--dir", dir, "--out", out))
    end
    assert_equal %w[link], Dir.children(@folder)
  end

  def test_a_folder_of_somebody_else_gets_no_results
    FileUtils.mkdir_p(at("metadata-tiny"))
    { "Rakefile" => "task :default", "metadata-tiny/thesis" => "all of it" }.each { |name, text| File.write(at(name), text) }
    [%w[run metadata], %w[compare copyfile --engines make], %w[run mr-sort --engines rakuda], %w[suite ci]].each do |words|
      assert_match(/is no folder of results/, refused(*words, "--out", "."))
    end
    assert_equal(["task :default", "all of it"], %w[Rakefile metadata-tiny/thesis].map { |name| File.read(at(name)) })
    assert_equal %w[Rakefile metadata-tiny], Dir.children(@folder).sort
  end

  def test_results_of_earlier_versions_are_known_as_such
    FileUtils.mkdir_p(at("bench-results/metadata-tiny"))
    { "copyfile-tiny-make.json" => JSON.pretty_generate("schema" => "rakuda-bench-workflow/1"),
      "metadata-tiny.json" => JSON.pretty_generate("schema" => "rakuda-bench-micro/1"),
      "Rakefile" => "# frozen_string_literal: true\n\n# Made by `rakudactl bench`: its benchmarks\n" }
      .each { |name, text| File.write(at("bench-results/#{name}"), text) }
    assert Rakuda::Bench::Results.ours?(at("bench-results"))
    File.write(at("bench-results/w.json"), JSON.generate(self.class.workflow(0)))
    refute Rakuda::Bench::Results.ours?(at("bench-results"))
  end

  def test_a_folder_that_was_there_and_a_link_to_one_stay
    small
    %w[here there].each { |name| Dir.mkdir(at(name)) }
    File.symlink(at("there"), at("link"))
    %w[here link].each { |dir| ran("compare", "w.json", "--engines", "make", "--rounds", "5", "--dir", dir) }
    assert File.symlink?(at("link"))
    assert_equal [[], []], (%w[here there].map { |name| Dir.children(at(name)) })
  end

  def test_what_was_kept_stays
    ran("run", "qcd-io", "--keep")
    assert_equal %w[.rakuda-bench qcd-io], Dir.children(at("bench-work")).sort
    ran("run", "metadata")
    ran("emit", "copyfile", "--engines", "make")
    ran("run", "metadata", "--keep")
    assert_equal %w[.rakuda-bench Makefile qcd-io], Dir.children(at("bench-work")).sort
    ran("run", "fio", "--keep")
    assert_match(/fio\.0 was kept: remove it/, refused("run", "fio"))
    assert_equal 2, Dir[at("bench-work/fio.*")].size
  end

  def test_prepared_inputs_are_what_comparisons_read
    ran("prepare", "copyfile")
    files = Dir[at("bench-work/inputs-copyfile-tiny/input-*")]
    assert_equal 8, files.size
    stamps = files.map { |file| [File.stat(file).ino, File.mtime(file)] }
    ran("compare", "copyfile", "--engines", "make")
    assert_equal(stamps, files.map { |file| [File.stat(file).ino, File.mtime(file)] })
    # And what is emitted beside them can be run.
    ran("emit", "copyfile", "--engines", "make")
    out, made = Open3.capture2e("make", "-s", chdir: at("bench-work"))
    assert made.success?, out
    assert_equal(stamps.map(&:first).sort, Dir[at("bench-work/input-*")].map { |file| File.stat(file).ino }.sort)
    (Dir.children(at("bench-work")) - %w[.rakuda-bench inputs-copyfile-tiny]).each do |name|
      FileUtils.rm_rf(at("bench-work/#{name}"))
    end
    # Other sizes have other inputs, which go as they came.
    ran("compare", "copyfile", "--engines", "make", "--scale-bytes", "0.5")
    assert_equal %w[.rakuda-bench inputs-copyfile-tiny], Dir.children(at("bench-work")).sort
    # What was only begun is made anew.
    FileUtils.rm_f([at("bench-work/inputs-copyfile-tiny/.inputs"), files.first])
    ran("prepare", "copyfile")
    assert File.file?(files.first)
  end

  def test_two_commands_do_not_share_a_folder
    File.write(at("w.json"), JSON.generate(self.class.workflow(600)))
    words = %w[compare w.json --engines make --scale-time 1]
    pid = Process.spawn(RAKUDACTL, "bench", *words, chdir: @folder, %i[out err] => File::NULL)
    wait_for("its engine") { File.exist?(at("bench-work/make-0/.tasks")) }
    assert_match(/bench-work is in use \(process \d+\)/, refused("run", "metadata"))
    assert_match(/bench-work is in use/, refused("prepare", "copyfile"))
    assert_path_exists at("bench-work/make-0/.tasks")
  ensure
    Process.kill(:TERM, pid)
    Process.wait(pid)
  end

  def test_a_result_of_other_conditions_has_another_name
    names = { [] => "argot-io-tiny", %w[--cache cold] => "argot-io-tiny-cold", %w[--np 4] => "argot-io-tiny-n1-p4",
              %w[-- --writer direct --fsync file] => "argot-io-tiny-writer-direct-fsync-file" }.map do |words, name|
      options = Rakuda::Bench::Options.new(words)
      part = Rakuda::Bench::Measured.parts(Rakuda::Bench::Catalogue.find("argot-io"), "tiny", options.behind, options)
      assert_equal ["#{name}.json"], part.map(&:file)
      name
    end
    assert_equal names, names.uniq
    label = lambda do |*words, entry: "copyfile"|
      Rakuda::Bench::Results.label(Rakuda::Bench::Options.new(words), Rakuda::Bench::Catalogue.find(entry))
    end
    assert_equal "", label.call("--rounds", "7")
    assert_equal "-cold-j8", label.call("-j", "8", "--cache", "cold")
    assert_equal "-w3-operations5", label.call("--workers", "3", "--operations", "5", "--blocks", "4k", entry: "metadata")
    assert_equal "-cold-direct-4k+64k", label.call("--blocks", "4k,64k", "--direct", "--cache", "cold", entry: "bandwidth")
    words = [["--name", "x" * 200], ["--name", "#{"x" * 200}y"], ["a/b"], ["a:b"]]
    long = words.map { |one| Rakuda::Bench::Results.shortened(one) }
    assert_equal long, long.uniq
    long.each { |one| assert_match(/\A[\w.-]{1,100}\z/, one) }
  end

  def test_a_comparison_under_other_conditions_leaves_the_results_of_the_first
    small
    [[], %w[-j 1], %w[--cache warm], %w[--scale-bytes 2]].each do |more|
      bench("compare", "w.json", "--engines", "make,xargs", "--rounds", "5", *more)
    end
    results = Dir[at("bench-results/w-own-*.json")].map { |path| JSON.parse(File.read(path)) }
    assert_equal 8, results.size
    assert_equal 4, results.map { |result| result["comparison"] }.uniq.size
    assert_equal 8, results.map { |result| result["id"] }.uniq.size
  end

  def test_no_space_is_found_before_inputs_are_made_and_nothing_is_left
    programs = at("iobench")
    FileUtils.mkdir_p(programs)
    File.write(File.join(programs, "room"), "#!/bin/sh\necho 100000 -\n")
    File.chmod(0o755, File.join(programs, "room"))
    [%w[prepare copyfile], %w[prepare homology], %w[emit homology --engines make], %w[suite ci]].each do |words|
      assert_match(/too little space at .*: \d+ bytes are written, 100000 are free/,
                   refused(*words, environment: { "IOBENCH" => programs }))
      assert_equal %w[iobench], Dir.children(@folder), words.join(" ")
    end
    # A disk that is full although there was room for it.
    { "room" => "echo 99999999999 -", "io-task" => "echo io-task: cannot write x: No space left on device >&2; exit 1" }
      .each { |name, line| File.write(File.join(programs, name), "#!/bin/sh\n#{line}\n") }
    File.chmod(0o755, File.join(programs, "io-task"))
    err = refused("prepare", "copyfile", environment: { "IOBENCH" => programs }, with: 1)
    assert_includes err, "io-task failed: io-task: cannot write x: No space left on device"
    assert_equal %w[iobench], Dir.children(@folder)
  end

  def test_a_folder_for_results_that_cannot_be_written_is_found_first
    File.write(at("file"), "")
    [%w[run argot-io], %w[compare copyfile --engines make], %w[run mr-sort --engines rakuda], %w[suite node],
     %w[run qcd-io --seconds 1]].each do |words|
      assert_match(%r{--out file/results cannot be written: \S+/file is no folder}, refused(*words, "--out", "file/results"))
    end
    assert_equal %w[file], Dir.children(@folder)
  end
end
