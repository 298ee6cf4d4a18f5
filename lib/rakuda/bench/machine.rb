# frozen_string_literal: true

require "digest"
require "json"
require "open3"
require "rakuda/bench/instance"
require "rakuda/bench/launch"
require "rakuda/bench/programs"

module Rakuda
  module Bench
    # The machine and the file system that a result is of, by the information service and findmnt.
    module Machine
      # What the service calls it, and what a result does.
      ATTRIBUTES = { "host" => nil, "os" => "os", "kernel" => "kernel", "cpu_model" => "cpu_model", "threads" => "cpus",
                     "mem_total" => "mem_bytes", "load1" => "loadavg" }.freeze

      # How long the file system may take to be found.
      FOUND_S = 60

      module_function

      # @param directory [String] the folder that is measured
      # @return [Hash{String => Object}] the object `machine`
      def describe(directory)
        node = ask
        named = ATTRIBUTES.filter_map { |attribute, name| [name, node[attribute]] if name && node.key?(attribute) }.to_h
        host = node["host"].to_s
        named.merge("host" => Digest::SHA256.hexdigest(host)[0, 16], "hostname_hash" => Instance.fnv_digest(host),
                    "fs" => file_system(directory), "vm" => dirty, "psi" => pressure)
      end

      # @return [Hash{String => Integer}] how much of memory may be written and not yet on disk, per cent
      def dirty
        %w[dirty_ratio dirty_background_ratio].to_h { |name| [name, File.read("/proc/sys/vm/#{name}").to_i] }
      rescue SystemCallError
        {}
      end

      # @return [Hash{String => String}] how much tasks waited for disks and memory before, as the kernel says it
      def pressure
        %w[io memory].filter_map do |name|
          text = File.read("/proc/pressure/#{name}")[/^some (.*)/, 1]
          [name, text] if text
        rescue SystemCallError
          nil # a kernel without it
        end.to_h
      end

      # @return [Hash{String => Object}] values of this machine by name
      # @raise [Failure]
      def ask
        output, errors, status = Open3.capture3(Programs.rakudactl, "nodes", "-F", "localhost", "--json")
        raise Failure, "the information service does not answer: #{errors.strip}" unless status.success?

        values = JSON.parse(output).fetch("nodes").first.fetch("values")
        values.transform_values { |value| value["value"] }
      end

      # @return [Hash{String => Object}]
      def file_system(directory)
        words = %w[-J -b -o SOURCE,FSTYPE,OPTIONS,AVAIL -T]
        output, = Launch.capture({}, Programs.need("findmnt"), *words, directory, timeout: FOUND_S)
        found = JSON.parse(output).fetch("filesystems").first
        { "device" => found["source"], "type" => found["fstype"], "options" => found["options"],
          "free_bytes" => found["avail"].to_i }
      end
    end
  end
end
