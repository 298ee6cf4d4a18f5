# frozen_string_literal: true

# The rounds of synchronised starts in one session: their numbers, what an action carries to its first command, and who
# waits for the end of a round. It knows no task of a `sync` statement.

module Rakuda
  # All rounds of a session.
  class SyncRounds
    # What an action of a worker carries until its first command.
    Pass = Struct.new(:round, :worker, :offset_ns, :local_rank, :cache, :used) do
      # @return [Hash, nil] of the options of StartCommand; only of the first command
      def take
        return nil if used

        self.used = true
        { "round" => round, "worker" => worker, "offset_ns" => offset_ns, "local_rank" => local_rank, "cache" => cache }
      end
    end

    # Where the workers of a round are. The engine starts their actions in the order of their numbers.
    class Places
      def initialize
        @ranks = {} # worker => [number of its node, its number there]
        @nodes = {} # name of a node => its number and how many workers it has
      end

      # @param worker [Integer]
      # @param node [String]
      # @return [Array(Integer, Integer)] number of its node among those of the round, and its own number there
      def take(worker, node)
        @ranks[worker] ||= begin
          place = @nodes[node] ||= [@nodes.size, 0]
          place[1] += 1
          [place[0], place[1] - 1]
        end
      end
    end

    # @param link [Link]
    # @param reactor [Reactor]
    def initialize(link, reactor)
      @link = link
      @reactor = reactor
      @next = 0
      @waiting = Hash.new { |hash, round| hash[round] = [] } # number of a round => Fibers that wait for its end
      @late = {}                                             # number of a round that has ended => workers that were late
      @collects = {}                                         # number of a round => SyncCollect
    end

    # A round that is about to begin.
    # @param fields [Hash] of DefineRound
    # @param collect [SyncCollect, nil] what is looked for in what its workers print
    # @return [Integer] its number
    def define(fields, collect = nil)
      number = @next
      @next += 1
      @collects[number] = collect if collect
      @link.send_message("DefineRound", number, fields)
      number
    end

    # Runs a block whose first command begins with its round. Without one the worker leaves the round.
    # @param action [Action]
    # @param pass [Pass]
    # @param variables [Hash{String => String}] what commands of the block find in their environment, too
    # @param wait [Boolean] whether the end of the round is waited for
    # @return [Integer, nil] how many workers were late, if that was waited for
    def run(action, pass, variables, wait:)
      action.pass = pass
      action.worker_variables = variables
      yield
      leave(pass)
      await(pass.round) if wait
    ensure
      leave(pass)
      action.pass = action.worker_variables = nil
    end

    # The message RoundEnded has come. A round that was given up is not repeated: its workers have failed.
    def on_ended(round, late, given_up)
      @late[round] = given_up ? 0 : late
      @waiting.delete(round)&.each { |fiber| @reactor.resume(fiber, @late[round]) }
    end

    # The message WorkerOutput has come.
    def on_output(round, worker, output)
      collect = @collects.fetch(round)
      values = collect.values(output)
      tell_missing(worker) if values.empty? && collect.names == [SyncCollect::ALL]
      @link.send_message("RoundValues", round, worker, values)
    end

    private

    # Whose figures have no names before they are printed is counted nowhere when it prints none.
    def tell_missing(worker)
      return if @is_missing_told

      @is_missing_told = true
      $stderr.puts "rakuda: collect: :json: worker #{worker} has printed no JSON object with up to " \
                   "#{SyncCollect::NUMBERS_MAX} numbers (said once)"
    end

    # No command of the worker comes to the gate any more.
    def leave(pass)
      @link.send_message("LeaveRound", pass.round, pass.worker) if pass.take
    end

    def await(round)
      return @late[round] if @late.key?(round)

      @waiting[round] << Fiber.current
      @reactor.park
    end
  end
end
