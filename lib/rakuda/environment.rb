# frozen_string_literal: true

# Follows changes of ENV since the engine was started, and gives each state that a command needs a number of the
# protocol. It does not know commands.

module Rakuda
  # The environments that commands are started with.
  class Environment
    # States kept in the table; the table is emptied (numbers stay valid at the hub) when it is full.
    KNOWN_MAX = 512

    # @param link [Link] for DefineEnvironment
    def initialize(link)
      @link = link
      @start = ENV.to_h
      @version = 0
      @current = 0         # number of ENV's state as of @current_version
      @current_version = 0
      @next = 1
      @known = {}
      Watch.environment = self
      ENV.singleton_class.prepend(Watch) unless ENV.singleton_class.include?(Watch)
    end

    # ENV has changed.
    def bump
      @version += 1
    end

    # @return [Integer] the number of ENV as it is now; 0 when it is as at the start
    def current
      return @current if @current_version == @version

      @current_version = @version
      @current = number(difference(ENV.to_h))
    end

    # @param changes [Hash{String => String, nil}] on top of ENV, as `system` takes it
    # @return [Integer]
    def with(changes)
      wanted = ENV.to_h
      changes.each { |name, value| value.nil? ? wanted.delete(name.to_str) : wanted[name.to_str] = value.to_str }
      number(difference(wanted))
    end

    # @param changes [Hash{String => String, nil}] all that there is
    # @return [Integer]
    def only(changes)
      number(difference(changes.reject { |_name, value| value.nil? }))
    end

    private

    def difference(wanted)
      [wanted.reject { |name, value| @start[name] == value }, @start.keys - wanted.keys]
    end

    def number(difference)
      return 0 if difference.all?(&:empty?)

      forget_all if @known.size > KNOWN_MAX
      @known[difference] ||= begin
        id = @next
        @next += 1
        set, unset = difference
        @link.send_message("DefineEnvironment", id, set, unset)
        id
      end
    end

    # The hub keeps the numbers that commands on their way still need.
    def forget_all
      @known.clear
      @link.send_message("ForgetEnvironments", @next)
      @current_version = nil
    end

    # In front of ENV's writing methods.
    module Watch
      class << self
        attr_accessor :environment
      end

      %i[[]= store delete update merge! replace clear delete_if reject! select! filter! keep_if shift].each do |name|
        define_method(name) do |*arguments, &block|
          Watch.environment.bump
          super(*arguments, &block)
        end
      end
    end
  end
end
