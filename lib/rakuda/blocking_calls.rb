# frozen_string_literal: true

# In front of calls that hold up the whole process and for which the Fiber scheduler has no hook: in an activity they
# wait in a thread. It knows neither the files nor the activities.

require "io/wait"

module Rakuda
  # Hooks for flock, select and what the user types.
  module BlockingCalls
    class << self
      # @param reactor [Reactor]
      # @param display [LiveDisplay]
      def install(reactor, display)
        @reactor = reactor
        @display = display
        return if File.include?(Lock)

        File.prepend(Lock)
        STDIN.singleton_class.prepend(Input)
        [Kernel, Kernel.singleton_class].each { |place| place.prepend(Gets) }
        [IO.singleton_class, Kernel, Kernel.singleton_class].each { |place| place.prepend(Select) }
      end

      # @return [Boolean] whether the caller is an activity
      def activity?
        @reactor.inside?
      end

      # An activity is about to read what the user types: the question must be seen, and others go on meanwhile.
      def before_input
        return unless activity?

        @display.without(@reactor.current)
        @reactor.current.show_partial_lines
        STDIN.wait_readable
      end

      # Calls the block in a thread, while other activities go on.
      def apart(&call)
        thread = Thread.new(&call)
        thread.report_on_exception = false
        thread.value
      ensure
        thread&.kill
      end
    end

    # In front of File.
    module Lock
      def flock(operation)
        return super if !BlockingCalls.activity? || !(operation & (File::LOCK_NB | File::LOCK_UN)).zero?

        super(operation | File::LOCK_NB) || BlockingCalls.apart { super(operation) }
      end
    end

    # In front of STDIN.
    module Input
      %i[each_line getbyte getc gets read readbyte readchar readline readlines readpartial sysread].each do |name|
        define_method(name) do |*arguments, **options, &block|
          BlockingCalls.before_input
          super(*arguments, **options, &block)
        end
      end
    end

    # In front of Kernel#gets, which reads without asking STDIN.
    module Gets
      %i[gets readline readlines].each do |name|
        define_method(name) do |*arguments, **options|
          BlockingCalls.before_input if ARGV.empty?
          super(*arguments, **options)
        end
      end
    end

    # In front of IO.select and Kernel#select.
    module Select
      def select(readers, writers = nil, errors = nil, timeout = nil)
        return super unless BlockingCalls.activity?

        ready = super(readers, writers, errors, 0)
        return ready if ready || timeout&.zero?

        BlockingCalls.apart { super(readers, writers, errors, timeout) }
      end
    end
  end
end
