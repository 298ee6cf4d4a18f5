# frozen_string_literal: true

require "json"

# The tables and figures of the paper (Tanaka, Tatebe 2014) with the simulator's values beside them, in Markdown: each
# with the command that it is from. Equal seeds give equal figures, so docs/design/simulator.md has them as they are
# printed.
class Paper
  COMMAND = File.expand_path("../../bin/rakudactl", __dir__)
  COPYFILE = %w[copyfile --policy fifo,lifo --locality off,on --repeat 5].freeze
  MONTAGE = %w[montage --policy fifo,lifo,lifo_hrf,rank_hrf --locality off,on].freeze
  NAMES = { "fifo" => "FIFO", "lifo" => "LIFO", "lifo_hrf" => "LIFO+HRF", "rank_hrf" => "Rank+HRF" }.freeze
  # MiB/s, in the order of --rates.
  RATES = { "read, local, disk" => 70, "read, local, cache" => 592, "read, remote, disk" => 39, "read, remote, cache" => 71,
            "write, local, disk" => 59 }.freeze
  # Percent of A and of B on the own node, and time over that of Loc+LIFO.
  SHARES = { "FIFO" => [10.7, 9.0, 2.46], "LIFO" => [10.7, 99.3, 1.72], "Loc+FIFO" => [100.0, 92.0, 1.30],
             "Loc+LIFO" => [96.3, 99.7, 1.0] }.freeze
  BEST = "Loc+LIFO"
  MONTAGE_CELLS = {
    "elapsed, s" => { false => [195.5, 180.9, 175.4, 173.6], true => [136.2, 141.5, 133.8, 131.8] },
    "accumulated, s" => { false => [17_686, 15_225, 15_667, 15_656], true => [11_607, 11_523, 11_456, 11_230] },
    "utilisation, %" => { false => [94, 88, 93, 94], true => [89, 85, 89, 89] },
    "inputs read on the own node, %" => { false => [9, 23, 19, 16], true => [48, 47, 48, 47] }
  }.freeze
  FIGURES = { "elapsed, s" => ", figure 8", "accumulated, s" => ", figure 15", "utilisation, %" => ", figure 10",
              "inputs read on the own node, %" => ", figure 9" }.freeze
  STEP_S = 5

  def initialize(nodes)
    @nodes = nodes
  end

  def tables
    [rates, shares, copying, mosaic, gain, curves, scaling]
  end

  private

  def rates
    found = IO.popen([COMMAND, "sim", "--help"], &:read)[/--rates.*?\[default: ([\d,]+)\]/m, 1].split(",")
    rows = RATES.zip(found).map { |(name, paper), ours| [name, paper, ours] }
    table("Table 1", %w[sim --help], ["MiB/s", "paper", "ours"], rows)
  end

  def shares
    rows = SHARES.map do |name, (first, second)|
      by_rule = copies.fetch(name).dig("local_share", "by_rule")
      ours = %w[A B].map { |rule| percent(by_rule[rule]) }
      remote = %w[A B].map { |rule| percent(1 - by_rule[rule]) }
      [name, first, ours[0], rest(first), remote[0], second, ours[1], rest(second), remote[1]]
    end
    head = ["", *%w[A B].flat_map { |task| %w[local remote].flat_map { |where| ["#{task} #{where}: paper", "ours"] } }]
    table("Table 3", COPYFILE, head, rows)
  end

  def rest(percent)
    (100 - percent).round(1)
  end

  def copying
    seeks = %w[--disk-efficiency 80]
    slow = by_name(sim(*COPYFILE, *seeks))
    rows = SHARES.map do |name, (_, _, ratio)|
      seconds, least, greatest = copies[name].values_at("makespan_s", "makespan_s_min", "makespan_s_max").map(&:round)
      ours = [over(copies, name), "#{seconds} (#{least} .. #{greatest})", over(slow, name)]
      [name, format("%.2f", ratio), *ours, estimate(name).round, format("%.2f", estimate(name) / estimate(BEST))]
    end
    ours = ["ours", "ours, s", "with `#{seeks.join(" ")}`"]
    head = ["", "over Loc+LIFO: paper", *ours, "the paper's estimate, s", "over Loc+LIFO"]
    table("Figure 6", COPYFILE, head, rows)
  end

  def over(cells, name)
    format("%.2f", cells[name]["makespan_s"] / cells[BEST]["makespan_s"])
  end

  # Section 5.2: bytes over rates of table 1, with the shares of table 3; B from memory under LIFO. 30 GiB of A and of B
  # a node.
  def estimate(name)
    disk, memory, far, far_memory, write = RATES.values.map(&:to_f)
    first, second = SHARES[name].first(2).map { |percent| percent / 100 }
    rates = name.end_with?("LIFO") ? [memory, far_memory] : [disk, far]
    each_s = first / disk + (1 - first) / far + second / rates[0] + (1 - second) / rates[1] + 2 / write
    30 * 1024 * each_s
  end

  def mosaic
    rows = MONTAGE_CELLS.flat_map do |what, cells|
      cells.map do |locality, values|
        ours = ordered(mosaics, locality).map { |cell| value(what, cell) }
        ["#{what}#{FIGURES[what]}", locality ? "yes" : "no", *values.zip(ours).flatten]
      end
    end
    table("Table 5", [*MONTAGE, "--repeat", "5"], ["", "locality", *pairs_of_columns], rows)
  end

  def value(what, cell)
    case what
    when "elapsed, s" then format("%.1f", cell["makespan_s"])
    when "accumulated, s" then cell["accumulated_s"].round
    when "utilisation, %" then (cell["utilisation"] * 100).round
    else (cell.dig("local_share", "files") * 100).round
    end
  end

  def gain
    papers = MONTAGE_CELLS["elapsed, s"].values_at(false, true).transpose.map { |without, with| without / with }
    pairs = ordered(mosaics, false).zip(ordered(mosaics, true)).map { |two| two.map { |cell| cell["makespan_s"] } }
    ours = pairs.map { |without, with| without / with }
    show = ->(ratios) { ratios.map { |ratio| format("%.2f", ratio) } }
    rows = [["elapsed without locality over with", *show[papers].zip(show[ours]).flatten]]
    table("Figure 8, from it", [*MONTAGE, "--repeat", "5"], ["", *pairs_of_columns], rows)
  end

  def pairs_of_columns
    NAMES.values.flat_map { |name| ["#{name}: paper", "ours"] }
  end

  def curves
    words = [*MONTAGE.take(3), "--json", "--curve", STEP_S.to_s]
    cells = lines(*words).map { |cell| cell["running"] }
    length = cells.map { |running| running.values.first.size }.max
    rows = (1...length).map do |step|
      at = cells.map { |running| running.transform_values { |counts| counts[step] || 0 } }
      [step * STEP_S, *at.map { |counts| [counts.values.sum, counts["mProjectPP"], counts["mDiff"]].join(", ") }]
    end
    # In the paper's order: figures 11 to 14.
    order = [0, 2, 1, 3, 4]
    head = ["s", "FIFO (12)", "LIFO (11)", "LIFO+HRF (13)", "Rank+HRF (14)"]
    table("Figures 11 to 14: running tasks in all, of mProjectPP, of mDiff", words, order.map { |index| head[index] },
          rows.map { |row| order.map { |index| row[index] } })
  end

  def scaling
    words = [*MONTAGE, "--nodes", @nodes.join(",")]
    cells = sim(*words).group_by { |cell| cell["nodes"] }
    rows = cells.map do |nodes, found|
      both = [false, true].flat_map { |locality| ordered(found, locality) }
      [nodes * 8, *both.map { |cell| cell["makespan_s"].round }, found.first["lower_bound_s"].round]
    end
    table("Figures 16 and 17: elapsed, s", [*MONTAGE, "--nodes", "1,2,3,4,5,6,7,8,9,10,11,12"],
          ["cores", *NAMES.values, *NAMES.values.map { |name| "Loc+#{name}" }, "bound"], rows)
  end

  def copies
    @copies ||= by_name(sim(*COPYFILE))
  end

  def mosaics
    @mosaics ||= sim(*MONTAGE, "--repeat", "5")
  end

  def by_name(cells)
    cells.to_h { |cell| ["#{"Loc+" if cell["locality"]}#{NAMES.fetch(cell["policy"])}", cell] }
  end

  def ordered(cells, locality)
    NAMES.keys.map { |policy| cells.find { |cell| cell["policy"] == policy && cell["locality"] == locality } }
  end

  def percent(part)
    format("%.1f", part * 100)
  end

  def sim(*words)
    lines(*words, "--json")
  end

  def lines(*words)
    IO.popen([COMMAND, "sim", *words], &:readlines).map { |line| JSON.parse(line) }
  end

  def table(name, words, head, rows)
    words = ["sim", *words] unless words.first == "sim"
    line = ->(cells) { "| #{cells.join(" | ")} |" }
    ["**#{name}.** `rakudactl #{words.join(" ")}`", "", line[head], "|#{"---|" * head.size}", *rows.map(&line)].join("\n")
  end
end
