# frozen_string_literal: true

require "digest"
require "rakuda/bench/engines"

module Rakuda
  module Bench
    # What a result is of, beside its benchmark: engine, size, place, conditions, parameters. By it results are kept
    # apart in reports, plots and `diff`. It knows no figure.
    module Facets
      # Settings of a micro-benchmark that say how it was asked for, or that stand among the conditions.
      UNSAID = %w[said seconds cache direct].freeze

      module_function

      # @param result [Hash]
      # @return [Hash{String => String}] in the order in which they are shown
      def of(result)
        { "size" => result["size"], "engine" => Engine.label_of(result), **place(result), **conditions(result),
          **parameters(result) }.compact.transform_values { |value| plain(value) }
      end

      # @return [Hash{String => Object}]
      def place(result)
        hosts = result["hosts"]
        ranks = result.dig("instance", "ranks")
        # Those of a kernel are its ranks.
        slots = result.dig("engine", "slots") unless ranks
        { "slots" => slots, "nodes" => hosts&.size, "hosts" => hosts && !ranks ? digest(hosts) : nil, "ranks" => ranks,
          "workers" => result["workers"], "machine" => machine(result), "fs" => result.dig("machine", "fs", "type") }
      end

      # What tells the hosts of a workflow, and their slots, from others.
      def digest(hosts)
        Digest::SHA256.hexdigest(hosts.map { |host| host.values_at("hostname_hash", "slots").join(" ") }.sort.join("\n"))[0, 8]
      end

      # @return [String, nil] what tells a machine from others
      def machine(result) = machines(result).first

      # @return [Array<String>] its names: results from before have but one of both
      def machines(result)
        digests = (result["machine"] || {}).values_at("hostname_hash", "host").compact
        digests.map { |digest| digest.delete_prefix("fnv1a64:")[0, 8] }
      end

      # @return [Hash{String => Object}]
      def conditions(result) = result["conditions"] || {}

      # @return [Hash{String => Object}] of a kernel, or the settings of a micro-benchmark
      def parameters(result)
        result.dig("instance", "params") || (result["settings"] || {}).reject { |name, _| UNSAID.include?(name) }
      end

      def plain(value)
        return value.join(value.all?(Integer) ? "x" : " ") if value.is_a?(Array)

        { true => "yes", false => "no" }.fetch(value, value.to_s)
      end

      # @return [String] all but the size and the engine, which stand in the head of a result
      def line(result) = of(result).except("size", "engine").map { |name, value| "#{name} #{value}" }.join(", ")

      # What tells each of some results from the others.
      # @param results [Array<Hash>]
      # @return [Array<String>] one for each; empty where they are equal in all
      def telling(results)
        all = results.map { |result| of(result) }
        names = all.flat_map(&:keys).uniq.select { |name| all.map { |one| one[name] }.uniq.size > 1 }
        all.map do |one|
          names.filter_map { |name| one[name] && [*(name unless %w[size engine].include?(name)), one[name]].join(" ") }.join(", ")
        end
      end

      # @return [Array<String>] where two results differ
      def differences(one, other)
        ours, theirs = of(one), of(other)
        theirs = theirs.merge("machine" => ours["machine"]) if machines(one).intersect?(machines(other))
        (ours.keys | theirs.keys).reject { |name| ours[name] == theirs[name] }
                                 .map { |name| "#{name} #{ours[name] || "-"} and #{theirs[name] || "-"}" }
      end
    end
  end
end
