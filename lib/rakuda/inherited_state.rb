# frozen_string_literal: true

# What a process hands on to those that it starts, beside directory, environment, umask and streams: user and groups,
# limits, niceness, session, root, ignored signals. Once the Rakefile has changed any of it, only Ruby itself can start
# commands that have it, too. It knows neither commands nor the hub, which has been started without the change.

module Rakuda
  # Hooks in front of the methods that change such state.
  module InheritedState
    # By owner of the methods.
    CHANGES = {
      Process => %i[uid= gid= euid= egid= groups= initgroups setrlimit setpriority setsid setpgid setpgrp daemon],
      Process::UID => %i[change_privilege grant_privilege eid= re_exchange switch],
      Process::GID => %i[change_privilege grant_privilege eid= re_exchange switch],
      Process::Sys => %i[setuid setgid setruid setrgid seteuid setegid setreuid setregid setresuid setresgid],
      Dir => %i[chroot]
    }.freeze
    # What makes `trap` ignore a signal.
    IGNORE = [nil, "", "IGNORE", "SIG_IGN"].freeze

    class << self
      # @return [Boolean] whether the Rakefile has changed any of it
      attr_accessor :changed

      # To be called before the Rakefile is read.
      def watch
        CHANGES.each { |owner, names| owner.singleton_class.prepend(hook(names & owner.methods)) }
        traps = trap_hook
        [Signal, Kernel].each { |owner| owner.singleton_class.prepend(traps) }
        Kernel.prepend(trap_hook.tap { |hook| hook.send(:private, :trap) })
      end

      private

      def hook(names)
        Module.new do
          names.each do |name|
            define_method(name) do |*arguments, &block|
              InheritedState.changed = true
              super(*arguments, &block)
            end
          end
        end
      end

      def trap_hook
        Module.new do
          def trap(*arguments, &block)
            InheritedState.changed = true if !block && arguments.size == 2 && IGNORE.include?(arguments[1])
            super
          end
        end
      end
    end
  end
end
