# frozen_string_literal: true

module Shows
  # What `strace -f -y` wrote of a process and all that came from it: the system calls of one of these processes with
  # its threads. It does not know which calls matter.
  class Trace
    # A call of the process: its name, and the first file that it names (a path, or what a descriptor stands for), or
    # nil.
    Call = Struct.new(:name, :path)
    MAKERS = %w[clone clone3 fork vfork].freeze
    LINE = /\A(\d+) +(.*)\z/
    CALL = /\A(\w+)\((.*)\z/m
    RESUMED = /\A<\.\.\. (\w+) resumed>.* = (\d+)/
    MADE = / = (\d+)(?: <[^>]*>)?\z/

    def initialize(text)
      @calls = []
      @thread_of = {}
      @child_of = {}
      @programs = {}
      pending = {}
      text.each_line(chomp: true) do |line|
        pid, rest = line.match(LINE)&.captures
        take(pid.to_i, rest, pending) if pid
      end
    end

    # The process that executed a program with such a word among its arguments.
    def process_with(word) = @programs.find { |_, line| line.include?("\"#{word}\"") }&.first

    # @param process [Integer, nil] nil: the one that was traced from its middle, whose threads were not seen to begin
    # @return [Array<Call>]
    def calls(process = nil)
      @calls.filter_map { |pid, call| call if (process ? leader(pid) == process : own?(pid)) }
    end

    private

    def take(pid, rest, pending)
      if (name, arguments = rest.match(CALL)&.captures)
        @calls << [pid, Call.new(name, path_in(arguments))]
        @programs[pid] = arguments if name == "execve"
        made(pid, name, rest, rest[MADE, 1], pending) if MAKERS.include?(name)
      elsif (name, made = rest.match(RESUMED)&.captures) && MAKERS.include?(name)
        (pending.delete(pid) ? @thread_of : @child_of)[made.to_i] = pid
      end
    end

    def made(pid, _name, rest, made, pending)
      thread = rest.include?("CLONE_THREAD")
      return pending[pid] = thread unless made

      (thread ? @thread_of : @child_of)[made.to_i] = pid
    end

    # The first quoted word that is not empty and no end of a path below an open folder, else what a descriptor stands
    # for.
    def path_in(arguments)
      folder = arguments[/\A(?:AT_FDCWD|\d+)<([^>]*)>/, 1]
      word = arguments[/"((?:[^"\\]|\\.)*)"/, 1]
      return folder if word.nil? || word.empty?

      word.start_with?("/") || folder.nil? ? word : File.join(folder, word)
    end

    def leader(pid)
      pid = @thread_of[pid] while @thread_of.key?(pid)
      pid
    end

    def own?(pid) = !@child_of.key?(leader(pid))
  end
end
