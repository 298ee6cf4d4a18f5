# frozen_string_literal: true

require "cgi"
require "rakuda/bench/figures"

module Rakuda
  module Bench
    # Kernels over more and more nodes or ranks: which runs there are, and what their results say together, beside the
    # end points that the paper tells. Ratios alone are to be compared: sizes are scaled, and the machine is another.
    # Pure.
    module Scaling
      # A run of a sweep.
      Point = Struct.new(:nodes, :ranks)

      # Results that belong together, and what grows: :nodes or :ranks.
      Sweep = Struct.new(:over, :results) do
        def benchmark = results.first["benchmark"]

        # What the paper tells of it.
        def told(phase)
          PAPER.select { |figure| figure.benchmark == benchmark && figure.phase == phase && figure.over == over }
        end
      end

      # A figure of Iwai, Tatebe 2018: what it shows, and the values that its text tells (ranks => GB/s).
      Figure = Struct.new(:title, :benchmark, :phase, :over, :per_node, :words, :told, :ranks, :paper_words,
                          :paper_ranks, keyword_init: true) do
        # The paper's meshes are the kernels' own of the size large; other sizes have smaller ones.
        def words_of(size) = size == "large" ? paper_words : words

        # @return [Array<Integer>] in all, where it is no matter of nodes
        def ranks_of(size) = (size == "large" && paper_ranks) || ranks || [1, 2, 4].map { |count| count * per_node }
      end
      PAPER = [
        Figure.new(title: "figure 1: ARGOT-IO, 256^3 cells and 1 process a node, 1 to 128 nodes", benchmark: "argot-io",
                   phase: "write", over: :nodes, per_node: 1, words: %w[--mesh 64x64x64],
                   paper_words: %w[--mesh 256x256x256], told: { 128 => 6.0 }),
        Figure.new(title: "figure 2: LES-IO Instant, 256x256x512 cells, 4 to 256 processes of 1 node", benchmark: "les-io",
                   phase: "instant_write", over: :ranks, words: %w[--outputs instant --mesh 64x64x128], ranks: [1, 2, 4, 8],
                   paper_words: %w[--outputs instant --mesh 256x256x512], paper_ranks: [4, 8, 16, 32, 64, 128, 256],
                   told: { 64 => 12.0 }),
        Figure.new(title: "figure 3: LES-IO Instant, 256x256x512 cells, 1 process a node, 4 to 64 nodes", benchmark: "les-io",
                   phase: "instant_write", over: :nodes, per_node: 1, words: %w[--outputs instant --mesh 64x64x128],
                   paper_words: %w[--outputs instant --mesh 256x256x512], told: { 64 => 35.0 }),
        Figure.new(title: "figure 4: QCD-IO, 12x24x24 sites a process, 4 processes a node, 1 to 128 nodes", benchmark: "qcd-io",
                   phase: "write", over: :nodes, per_node: 4, words: %w[--local 12x12x12x8],
                   paper_words: %w[--local 12x24x24x32], told: { 512 => 11.0 })
      ].freeze

      module_function

      # @param nodes [Array<Integer>]
      # @param ranks [Array<Integer>] in all; ignored with `per_node`
      # @param per_node [Integer, nil] ranks of each node
      # @return [Array<Point>]
      def points(nodes, ranks, per_node)
        nodes.flat_map { |count| (per_node ? [per_node * count] : ranks).map { |all| Point.new(count, all) } }
             .reject { |point| point.ranks < point.nodes }.uniq
      end

      # Results of a kernel that differ in their ranks alone, on as many nodes, or in their nodes, with as many ranks on
      # each.
      # @return [Array<Sweep>] each with its results from the fewest ranks on
      def groups(results)
        kernels = results.select { |result| result["schema"] == "rakuda-bench/1" && result["valid"] }
        kernels.group_by { |result| shape(result) }.values.flat_map do |group|
          sweeps(:ranks, group.group_by { |one| place(one).first }) +
            sweeps(:nodes, group.group_by { |one| place(one).reverse.reduce(:/) })
        end
      end

      def sweeps(over, groups)
        index = over == :nodes ? 0 : 1
        groups.values.map { |group| group.uniq { |one| place(one) }.sort_by { |one| place(one)[1] } }
              .select { |group| group.map { |one| place(one)[index] }.uniq.size > 1 }.map { |group| Sweep.new(over, group) }
      end

      # The mesh of les-io is that of all ranks, and so stays; parameters that follow from the ranks are left out.
      def shape(result)
        parameters = result.dig("instance", "params").reject { |name, _| %w[grid lattice blocks].include?(name) }
        [result["benchmark"], result["size"], parameters, result["conditions"].slice("cache", "durable", "direct")]
      end

      # @return [Array(Integer, Integer)] nodes and ranks
      def place(result) = [result.fetch("hosts").size, result.dig("instance", "ranks")]

      # @return [Hash{String => Array<Array>}] phase => nodes, ranks, B/s, least and greatest of a repetition, times the
      #   first
      def table(sweep)
        group = sweep.results
        names = group.map { |result| result["derived"].map { |one| one["name"] } }.reduce(:&)
        names.to_h do |name|
          ones = group.map { |result| result["derived"].find { |one| one["name"] == name } }
          first = ones.first["bw_last_done"]
          rows = group.zip(ones).map do |result, one|
            [*place(result), *one.values_at("bw_last_done", "min_bw", "max_bw"), one["bw_last_done"] / [first.to_f, 1e-9].max]
          end
          [name, rows]
        end
      end

      # @return [Array<String>]
      def lines(sweep)
        table(sweep).flat_map do |phase, rows|
          ["#{sweep.benchmark} #{phase} over #{sweep.over}: nodes, ranks, bandwidth [least - greatest], times the first"] +
            rows.map { |row| line(*row) } + told_lines(sweep, phase).map { |line| "    #{line}" }
        end
      end

      # @return [Array<String>] what the paper tells of a phase
      def told_lines(sweep, phase)
        sweep.told(phase).map { |figure| "paper, #{figure.title}: #{told_text(figure)}#{scaled(sweep)}" }
      end

      def line(nodes, ranks, rate, least, greatest, times)
        format("    %3d %4d  %14s/s  [%s/s - %s/s]  %6.2f", nodes, ranks, Figures.bytes(rate), Figures.bytes(least),
               Figures.bytes(greatest), times)
      end

      # Meshes of the size large are the paper's.
      def scaled(sweep) = sweep.results.all? { |result| result["size"] == "large" } ? "" : "; sizes here are scaled"

      def told_text(figure)
        figure.told.map { |ranks, rate| "#{rate} GB/s with #{ranks} processes" }.join(", ")
      end

      WIDTH = 480
      HEIGHT = 320
      MARGIN = 56

      # Bandwidth over ranks, both logarithmic, every repetition's extremes, and a line for what would be proportional.
      # @return [Hash{String => String}] name => SVG
      def plots(sweep)
        table(sweep).to_h do |phase, rows|
          ["#{sweep.benchmark}-#{phase.tr("_", "-")}-over-#{sweep.over}", draw(sweep, phase, rows)]
        end
      end

      def draw(sweep, phase, rows)
        rates = (rows.flat_map { |row| row[2..4] } + rows.map { |row| proportion(rows, row) }).map { |rate| [rate, 1].max }
        across = axis(rows.map { |row| row[1] }, MARGIN + 40, WIDTH - 60)
        above = axis(rates, HEIGHT - MARGIN - 8, 60)
        title = "#{sweep.benchmark} #{phase}: bandwidth over #{sweep.over}"
        told = sweep.told(phase)
        notes = told.map.with_index do |figure, index|
          text(0, HEIGHT + (16 * index), "paper, #{figure.title[/^[^:]+/]}: #{told_text(figure)}#{scaled(sweep)}", "start", 11)
        end
        <<~SVG
          <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDTH} #{HEIGHT + (16 * told.size)}" role="img"
           font-family="sans-serif">
          <title>#{CGI.escapeHTML(title)}</title>
          #{text(0, 18, title, "start", 15)}
          <path d="M#{MARGIN} 40V#{HEIGHT - MARGIN + 8}H#{WIDTH - 10}" fill="none" stroke="currentColor"/>
          <polyline points="#{rows.map { |row| "#{across[row[1]]},#{above[row[2]]}" }.join(" ")}" fill="none" stroke="#5b8fc9"/>
          #{proportional(rows, across, above)}
          #{rows.map { |row| mark(row, across, above) }.join("\n")}
          #{text(WIDTH / 2, HEIGHT - 16, "ranks (nodes); from the least to the greatest repetition; dotted: proportional", "middle",
                 11)}
          #{notes.join("\n")}
          </svg>
        SVG
      end

      # The rate of the first point, times the ranks.
      def proportion(rows, row) = rows.first[2] * row[1] / rows.first[1].to_f

      def proportional(rows, across, above)
        points = [rows.first, rows.last].map { |row| "#{across[row[1]]},#{above[proportion(rows, row)]}" }
        "<polyline points=\"#{points.join(" ")}\" fill=\"none\" stroke=\"currentColor\" stroke-dasharray=\"2 4\"/>"
      end

      def mark(row, across, above)
        nodes, ranks, rate, least, greatest, times = row
        left = across[ranks]
        "<path d=\"M#{left} #{above[least]}V#{above[greatest]}\" stroke=\"#d55e00\"/>" \
          "<circle cx=\"#{left}\" cy=\"#{above[rate]}\" r=\"4\" fill=\"#5b8fc9\"/>" +
          text(left, above[greatest] - 8, "#{Figures.bytes(rate)}/s, x #{times.round(2)}", "middle", 11) +
          text(left, HEIGHT - MARGIN + 22, "#{ranks} (#{nodes})", "middle", 11)
      end

      def text(left, top, words, anchor, size)
        "<text x=\"#{left}\" y=\"#{top}\" text-anchor=\"#{anchor}\" font-size=\"#{size}\" fill=\"currentColor\">" \
          "#{CGI.escapeHTML(words)}</text>"
      end

      # Logarithmic, from the least to the greatest value; what is less than 1 counts as 1.
      def axis(values, from, to)
        low, high = values.minmax.map { |value| Math.log(value) }
        spread = high - low
        lambda do |value|
          (spread.zero? ? (from + to) / 2.0 : from + ((Math.log([value, 1].max) - low) / spread * (to - from))).round(1)
        end
      end
    end
  end
end
