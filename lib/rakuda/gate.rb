# frozen_string_literal: true

# The gate of a synchronised start for Ruby programs that set up first (`sync ... gate: :call`): gate/rakuda_gate.h in
# Ruby, with files in place of system calls. It needs nothing else of Rakuda.

module Rakuda
  # @example
  #   require "rakuda/gate"
  #   data = File.read("input")     # set up
  #   Rakuda::Gate.wait             # all workers go on from here at the same instant
  module Gate
    MAGIC = 0x31474b52
    COMMITTED = 1
    HEAD = "LLqq"
    HEAD_BYTES = 64
    SLOT = "qqqqqllLL"
    SLOT_BYTES = 64
    # By call, and without waiting for the other workers.
    KIND_CALL_ALONE = 3
    # Status of a process whose round is given up.
    GIVEN_UP = 75

    class << self
      # Waits until the round that this process is of begins.
      # @return [Boolean] false, at once, when it is of none
      def wait
        fields = ENV.delete("RAKUDA_GATE")&.split(",")&.map { |field| Integer(field, 10) }
        return false unless fields&.size == 5

        page, wait, ready = fields.first(3).map { |number| IO.for_fd(number) }
        pass(page, wait, ready, fields[4])
        true
      end

      private

      def pass(page, wait, ready, number)
        place = HEAD_BYTES + (SLOT_BYTES * number)
        slot = page.pread(SLOT_BYTES, place).unpack(SLOT)
        offset_ns = slot[4]
        slot[7, 2] = KIND_CALL_ALONE, Process.pid
        slot[0] = now_ns
        page.pwrite(slot.pack(SLOT), place)
        ready.syswrite([number].pack("L"))
        ready.close
        wait.read
        slot[1] = now_ns
        wait.close
        magic, state, t0_ns, spin_ns = page.pread(HEAD_BYTES, 0).unpack(HEAD)
        exit!(GIVEN_UP) unless magic == MAGIC && state == COMMITTED

        slot[2], slot[3] = until_instant(t0_ns + offset_ns, spin_ns)
        slot[6] = -1
        page.pwrite(slot.pack(SLOT), place)
        page.close
      end

      # @return [Array(Integer, Integer)] when it stopped sleeping, and when it was over
      def until_instant(instant_ns, spin_ns)
        left_ns = instant_ns - spin_ns - now_ns
        sleep(left_ns / 1e9) if left_ns.positive?
        spun_ns = time_ns = now_ns
        time_ns = now_ns while time_ns < instant_ns
        [spun_ns, time_ns]
      end

      def now_ns
        Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      end
    end
  end
end
