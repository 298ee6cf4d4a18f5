# frozen_string_literal: true

require "open3"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # Versions of programs of others that a result was made with. It knows not who uses them.
    module Versions
      # What has a program tell its version, where that is not --version.
      WORDS = { "diamond" => %w[version], "java" => %w[-version] }.freeze
      UNKNOWN = "unknown"

      module_function

      # @param names [Array<String>] of programs; those that are not there are left out
      # @return [Hash{String => String}]
      def of(names)
        names.uniq.filter_map { |name| (path = Programs.find(name)) && [name, told(name, path) || packaged(name)] }.to_h
      end

      # @return [String, nil] of rakuda itself
      def rakuda = told("rakuda", Programs.rakuda)

      # The first number with dots that it prints. Each is asked once: most take a tenth of a second to start.
      def told(name, path) = (@told ||= {}).fetch(path) { @told[path] = asked(name, path) }

      def asked(name, path)
        output, status = Open3.capture2e(path, *WORDS.fetch(name, %w[--version]), stdin_data: "")
        output[/(?<![\w.])v?(\d+(\.\d+)+\S*?)["',;)]*(\s|\z)/, 1] || output[/-(\d+(\.\d+)+)\s/, 1] if status.success?
      rescue SystemCallError
        nil
      end

      # Some tell none: then that of Debian's package.
      def packaged(name)
        package = Programs::PACKAGES[name] or return UNKNOWN
        output, status = Open3.capture2e("dpkg-query", "-W", "-f", "${Version}", package)
        status.success? ? output : UNKNOWN
      rescue SystemCallError
        UNKNOWN
      end
    end
  end
end
