# frozen_string_literal: true

require "rakuda/bench/processes"

module Rakuda
  module Bench
    # Ends what was started when whoever started it is gone, killed without a word. It is a process of its own that
    # reads, from a pipe, which group of processes runs now; at the end of the pipe it ends that group. It alone holds
    # the lock of the folder until then: closing a file takes as long as its file system likes, and whoever started it
    # ends without that. It does not know what runs.
    class Guard
      # Words of the pipe: the group that runs, or - for none. The last word of the script is for how many tenths of a
      # second a group may take to end when it is asked to.
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
      end

      # @return [String] the folder whose lock it holds
      attr_reader :folder

      # @param lock [File] of the folder; whoever makes the guard closes it
      # @param folder [String]
      def initialize(lock, folder)
        @folder = folder
        read, @pipe = IO.pipe
        places = { in: read, %i[out err] => File::NULL, lock => lock }
        @pid = Process.spawn({ Processes::MARK => nil }, "/bin/sh", "-c", SCRIPT, GRACE_TENTHS.to_s, **places, pgroup: true)
        read.close
      end

      def tell(word)
        @pipe.puts(word)
        @pipe.flush
      rescue Errno::EPIPE
        nil # somebody has killed it: there is no guard then
      end

      # Something does not end: the folder is left as it is.
      # @param left [Array<Processes::One>]
      def give_up(left)
        @given_up = true
        Processes.note(folder, left) unless left.empty?
      end

      # @return [Boolean]
      def given_up? = @given_up ? true : false

      # The lock is free afterwards; of a folder that was given up, when its file system answers.
      def close
        tell("-")
        @pipe.close
        given_up? ? Process.detach(@pid) : Process.wait(@pid)
      end
    end
  end
end
