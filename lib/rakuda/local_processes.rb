# frozen_string_literal: true

# In front of the methods with which Ruby code starts a process of its own: an action that has no core yet waits for
# one. It knows neither the processes nor the hub.

module Rakuda
  # Hooks for system, backticks, spawn and popen.
  module LocalProcesses
    class << self
      # @param session [Session]
      def install(session)
        @session = session
        return if Kernel.include?(Commands)

        [Kernel, Kernel.singleton_class].each { |place| place.prepend(Commands) }
        Process.singleton_class.prepend(Spawn)
        IO.singleton_class.prepend(Popen)
      end

      # The running activity is about to start a process, which has the terminal that Ruby has.
      # @yield until it has ended; without a block that is not known
      def prepare(&call)
        return call&.call unless (activity = @session.current_activity)

        activity.ensure_lease
        @session.display.without(activity, &call)
      end
    end

    # In front of Kernel.
    module Commands
      def system(*arguments, **options)
        LocalProcesses.prepare { super(*arguments, **options) }
      end

      def `(command)
        LocalProcesses.prepare { super(command) }
      end

      def spawn(...)
        LocalProcesses.prepare
        super
      end
    end

    # In front of Process.
    module Spawn
      def spawn(...)
        LocalProcesses.prepare
        super
      end
    end

    # In front of IO.
    module Popen
      def popen(...)
        LocalProcesses.prepare
        super
      end
    end
  end
end
