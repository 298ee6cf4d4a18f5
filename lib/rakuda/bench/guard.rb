# frozen_string_literal: true

require "rakuda/bench/errors"

module Rakuda
  module Bench
    # Ends what was started when whoever started it is gone, killed without a word. It is a process of its own that reads, from a
    # pipe, which group of processes runs now; at the end of the pipe it ends that group. It holds the lock of the folder until
    # then. It does not know what runs.
    class Guard
      # Words of the pipe: the group that runs, or - for none. The last word of the script is for how many tenths of a second
      # a group may take to end when it is asked to.
      SCRIPT = <<~SH
        group=-
        while read -r word; do group=$word; done
        [ "$group" = - ] && exit 0
        kill -TERM "-$group" 2>/dev/null
        tenths=0
        while [ "$tenths" -lt "$0" ] && kill -0 "-$group" 2>/dev/null; do sleep 0.1; tenths=$((tenths + 1)); done
        kill -KILL "-$group" 2>/dev/null
        exit 0
      SH
      GRACE_TENTHS = 300
      # In the environment of all that is started: by it a later command finds what was left.
      MARK = "RAKUDA_BENCH_DIR"

      class << self
        # The one of this process, while there is a folder that it writes into.
        # @return [Guard, nil]
        attr_accessor :current

        # @param pid [Integer] a process that leads a group
        # @yield while it runs
        def over(pid)
          current&.tell(pid)
          yield
        ensure
          current&.tell("-")
        end

        # @param folder [String]
        # @return [Array<String>] processes of this user that were started for a run in the folder: number and command
        def left(folder)
          mark = "#{MARK}=#{folder}"
          pids = Dir.children("/proc").grep(/\A\d+\z/).map(&:to_i) - [Process.pid, Process.ppid]
          pids.sort.filter_map do |pid|
            next unless File.binread("/proc/#{pid}/environ").split("\0").include?(mark)

            "#{pid} (#{File.binread("/proc/#{pid}/cmdline").split("\0").first(3).join(" ")[0, 60]})"
          rescue SystemCallError
            nil # ended meanwhile, or of somebody else
          end
        end
      end

      # @param lock [File] that it holds, too
      def initialize(lock)
        read, @pipe = IO.pipe
        places = { in: read, %i[out err] => File::NULL, lock => lock }
        @pid = Process.spawn({ MARK => nil }, "/bin/sh", "-c", SCRIPT, GRACE_TENTHS.to_s, **places, pgroup: true)
        read.close
      end

      def tell(word)
        @pipe.puts(word)
        @pipe.flush
      rescue Errno::EPIPE
        nil # somebody has killed it: there is no guard then
      end

      # Its lock is free afterwards.
      def close
        tell("-")
        @pipe.close
        Process.wait(@pid)
      end
    end
  end
end
