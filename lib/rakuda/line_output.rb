# frozen_string_literal: true

# Stands for $stdout and $stderr while actions run in parallel: what an action prints comes out in whole lines, so that
# lines of two actions never mix. It does not know commands, whose output the hub writes.

require "delegate"
require "stringio"

module Rakuda
  # An IO that writes whole lines.
  class LineOutput < SimpleDelegator
    # Both streams of a session.
    Pair = Struct.new(:out, :err) do
      # An activity has ended: what is left of its last lines is written.
      def finish(activity)
        lines = activity.partial_lines or return
        activity.partial_lines = nil
        lines.each { |stream, text| stream.real_write("#{text}\n", activity) unless text.empty? }
      end

      # Puts the former streams back.
      def remove
        $stdout = out.__getobj__ if $stdout.equal?(out)
        $stderr = err.__getobj__ if $stderr.equal?(err)
      end
    end

    # @param session [Session]
    # @param collect [Boolean] whether the hub collects what an action prints
    # @return [Pair]
    # @param prefix [Boolean] whether the name of the action's task comes before each line
    # @param display [LiveDisplay]
    def self.install(session, collect, prefix, display)
      $stdout.sync = true if $stdout.respond_to?(:sync=)
      # What was printed while the Rakefile was read comes before what the engine writes.
      $stdout.flush
      pair = Pair.new(*[$stdout, $stderr].map.with_index(1) do |stream, descriptor|
        through = LiveDisplay::STREAMS[descriptor].equal?(stream) && display.wanted?
        new(stream, session, (collect || through) && descriptor, prefix, collect, through ? display : nil)
      end)
      $stdout = pair.out
      $stderr = pair.err
      pair
    end

    # @param descriptor [Integer, false] of the message WriteOutput; false: written here
    # @param prefix [Boolean]
    # @param collect [Boolean] whether what actions print is shown when they end
    # @param display [LiveDisplay, nil] one that what is printed must not be mixed with
    def initialize(stream, session, descriptor, prefix, collect, display)
      super(stream)
      @collect = collect
      @display = display
      @prefix = prefix && !descriptor # the hub puts it before what it collects
      @descriptor = descriptor
      @stream = stream
      @session = session
    end

    def write(*texts)
      return write_without_activity(texts) unless (activity = @session.current_activity)

      text = texts.size == 1 ? texts[0].to_s : texts.join
      partial = activity.partial_lines && activity.partial_lines[self]
      return real_write(text, activity) && text.bytesize if text.end_with?("\n") && (partial.nil? || partial.empty?)

      write_in_lines(activity, text)
      text.bytesize
    end

    def puts(*values)
      value = values[0]
      if values.size == 1 && value.instance_of?(String)
        write(value.end_with?("\n") ? value : "#{value}\n")
      else
        buffer = StringIO.new
        buffer.puts(*values)
        write(buffer.string)
      end
      nil
    end

    def print(*values)
      buffer = StringIO.new
      buffer.print(*values)
      write(buffer.string)
      nil
    end

    def printf(format, *values)
      write(format(format, *values))
      nil
    end

    def <<(value)
      write(value.to_s)
      self
    end

    def putc(value)
      write(value.is_a?(String) ? value[0] : (value.to_i & 0xff).chr)
      value
    end

    def syswrite(text)
      write(text)
    end

    def p(*values)
      puts(*values.map(&:inspect))
    end

    def pp(value)
      puts(value.pretty_inspect)
    end

    def to_io
      @stream
    end

    # Writes what is in the stream's own buffer.
    def flush
      @stream.flush
      self
    end

    # Writes what someone is to answer: it is not kept until the task ends.
    def write_question(text, activity)
      @collect ? @stream.write(text) : real_write(text, activity)
    end

    # Writes at once.
    def real_write(text, activity)
      text = text.b.lines.map { |line| prefix_of(activity) + line }.join if @prefix
      return @stream.write(text) unless @descriptor && !@session.reopened? && through_hub?(activity)

      @session.link.send_message("WriteOutput", activity.number, @descriptor, text.b)
    end

    private

    def through_hub?(activity)
      return @display.through_engine?(activity) if @display

      @collect && activity.number
    end

    # What the loop itself says, in whole lines.
    def write_without_activity(texts)
      text = texts.join
      return @stream.write(text) unless @display&.through_engine?(nil) && !@session.reopened? && text.end_with?("\n")

      @session.link.send_message("WriteOutput", nil, @descriptor, text.b)
      text.bytesize
    end

    def prefix_of(activity)
      activity.is_a?(Action) ? "[#{activity.task.name.tr("\n", " ")}] ".b : ""
    end

    def write_in_lines(activity, text)
      lines = (activity.partial_lines ||= {}.compare_by_identity)
      partial = (lines[self] ||= +"".b)
      partial << text.b
      finish = partial.rindex("\n")
      real_write(partial.slice!(0..finish), activity) if finish
    end
  end
end
