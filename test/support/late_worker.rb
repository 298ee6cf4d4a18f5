# frozen_string_literal: true

# A worker of a round, with `gate: :call`, that is late however busy the machine is. It says nothing of who looks.
module LateWorker
  # Ruby, with Rakuda's lib in its load path. It has another process stop it before it waits, and continue it after the
  # instant.
  PROGRAM = <<~'RUBY'
    fields = ENV.fetch("RAKUDA_GATE").split(",").map(&:to_i)
    page, ready, slot = IO.for_fd(fields[0], autoclose: false), IO.for_fd(fields[2], autoclose: false), fields[4]
    main = Process.pid
    fork do
      wait = IO.for_fd(fields[1], autoclose: false)
      sleep 0.001 until File.read("/proc/#{main}/stat").split(")").last.split[0] == "T"
      ready.syswrite([slot].pack("L"))
      wait.read
      t0 = page.pread(64, 0).unpack("LLqq")[2]
      sleep 0.001 until Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) > t0
      Process.kill(:CONT, main)
    end
    Process.kill(:STOP, main)
    require "rakuda/gate"
    Rakuda::Gate.wait
  RUBY
end
