# frozen_string_literal: true

require "minitest/autorun"
require "open3"

# The measurements on a testbed run to their ends in the small, so that they are not found broken on the day they are
# needed. Their figures mean nothing here; what is looked at is that the work was done. What they compute is tested in
# ../bench/cluster_scripts_test.rb.
class ClusterBenchTest < Minitest::Test
  FOLDER = File.expand_path("../../bench/cluster", __dir__)

  def test_copyfile_is_measured_under_every_order
    output = run_script("copyfile", "--hosts", "2", "--files", "4", "--mib", "2", "--rounds", "1")
    ["FIFO", "LIFO", "Loc+FIFO", "Loc+LIFO", "cached"].each do |name|
      assert_equal 2, output.scan(/^  #{Regexp.escape(name)} +\d/).size, output
    end
    assert_includes output, "inputs by host: host1 2, host2 2"
  end

  def test_the_mosaic_is_equal_on_hosts_with_and_without_affinity
    output = run_script("montage", "--hosts", "2", "--n", "2", "--pix", "128", "--rounds", "1")
    assert_match(/^  ssh  .* equal$/, output)
    assert_match(/^  ssh, no affinity  .* equal$/, output)
  end

  def test_a_fault_is_told_with_what_became_of_the_run
    output = run_script("faults", "--hosts", "2", "--n", "3", "--pix", "128", "--only", "hub")
    assert_match(/^hub: .*\n  struck at .*\n  ended with status 1 /, output)
    assert_match(/^  the next run: status 0/, output)
    assert_equal 1, output[/^faults on .*\z/m].scan(/^  kill -9 /).size
  end

  def test_start_up_rates_and_chains_are_measured
    output = run_script("startup", "--hosts", "1,2", "--rounds", "1", "--tasks", "20", "--chain", "6")
    assert_match(/^  ssh, 2 hosts, program there +\d+\.\d+ +\d+\.\d+$/, output)
    assert_match(/^  2 hosts of 2 cores, ssh +\d+ +\d+$/, output)
    assert_match(/^  file tasks, two hosts in turn, Gfarm +\d+\.\d+$/, output)
  end

  def test_metadata_calls_are_counted_and_are_about_those_of_the_report
    %w[ssh slurm].each do |way|
      output = run_script("metadata", "--hosts", "2", "--tasks", "100", "--through", way)
      next if output.include?("not run: ")

      said = /the report says (\S+) a task .* strace, of all these: ([\d.]+), on files of the workflow: ([\d.]+)/
      report, all, counted = output.match(said).captures.map(&:to_f)
      # Beside what the report counts strace sees what libraries do once for a run.
      assert_in_delta counted, report, 1
      assert_operator all, :>, counted
      assert_operator report, :<=, 4, way
      assert_match(/^  statx +\d/, output)
    end
  end

  def test_the_figures_of_2018_are_swept_over_ssh_and_in_slurm
    output = run_script("sweeps", "--nodes", "1,2", "--size", "tiny")
    ways = output.scan(/^(ssh|Slurm): (\d+) results, all valid$/)
    assert_equal output.include?("not run: ") ? [%w[ssh 10]] : [%w[ssh 10], %w[Slurm 10]], ways, output
    assert_equal ways.size * 2, output.scan(/^les-io instant_write over (?:nodes|ranks): /).size
    assert_equal ways.size, output.scan(%r{^ +paper, figure 4: .* 11\.0 GB/s with 512 processes; sizes here are scaled$}).size
  end

  def test_what_workflows_take_is_set_beside_what_the_simulator_says
    words = %w[--disk 20 --file 40 --files 4 --mib 1 --size tiny --rounds 1]
    output = run_script("predict", *words)
    %w[copyfile montage].product(%w[make rakuda]).each do |name, engine|
      assert_equal 2, output.scan(/^ +#{name} in #{engine}: predicted \S+ \S+, measured \S+ \S+: [-+]\d+ %$/).size, output
    end
  end

  def test_start_lags_over_hosts_are_measured_by_all_ways
    output = run_script("start", "--hosts", "2", "--cores", "1", "--workers", "1,2", "--rounds", "2", "--runs", "1")
    cell = /\d+\.\d \[\d+\.\d-\d+\]/
    tables = { "rakuda, preload gate" => 3, "rakuda, exec gate" => 3, "rakuda, exec gate, static" => 3, "rakuda, no gate" => 3,
               "Open MPI, barrier" => 2, "srun" => 2 }
    tables.each { |way, count| assert_equal count, output.scan(/^#{way} +#{cell} +#{cell} /).size, output }
  end

  def test_the_applications_of_2016_are_measured_on_own_disks_and_on_gfarm
    output = run_script("applications", "--hosts", "2", "--file-size", "1M", "--operations", "10", "--blocks", "1m",
                        "--trials", "1")
    ["own disk of each host", "Gfarm"].each do |place|
      assert_equal 3, output.scan(%r{^#{place}: .*, MB/s by size of blocks\n .*host1.*host2\n  1m +\d+ +\d+ +\d+$}).size, output
      assert_match(/^#{place}: figure 18: .*\n.*host1.*host2\n  \S+ +\d+ +\d+ +\d+$/, output)
    end
    assert_equal %w[metadata fio] * 2, output.scan(/^  (metadata|fio): (?:valid|NOT VALID)$/).flatten
  end

  def test_errors_of_clocks_are_held_against_their_bounds
    output = run_script("clocks", "--lines", "2/10", "--rounds", "1", "--runs", "1")
    %w[direct leader].each do |way|
      assert_equal 2, output.scan(%r{^  2/10 +#{way} +host[34] +\d+ +4( +-?\d+\.\d+){6}$}).size, output
    end
    assert_match(/^errors within their bounds: 24 of 24$/, output)
  end

  def test_far_hosts_are_measured_without_prepared_commands_and_with_them
    output = run_script("far", "--trips", "4", "--tasks", "8", "--rounds", "1")
    %w[direct leader].each { |way| assert_match(/^  4 +#{way} +50 +12\.5( +\d+\.\d+){3}$/, output) }
  end

  private

  def run_script(name, *words)
    output, status = Open3.capture2e("timeout", "-s", "KILL", "900", "#{FOLDER}/#{name}", *words)
    assert status.success?, output
    output
  end
end
