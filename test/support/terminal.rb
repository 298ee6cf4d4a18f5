# frozen_string_literal: true

require "io/console"
require "io/wait"
require "pty"

# A terminal as a user has it: a pseudo-terminal, and what one sees on its screen and above it. It knows the few
# sequences that rakuda uses, and raises on any other.
class Terminal
  SEQUENCE = /\e\[(\??[\d;]*)([A-Za-z])/.freeze
  # Only turns a hang into a failure.
  LIMIT = ENV.fetch("RAKUDA_TEST_LIMIT", "120").to_i

  # All bytes that came, and the exit status.
  attr_reader :bytes, :status

  # Runs a command on a terminal of its own.
  # @yield [Terminal] when something has come
  def self.run(*command, columns: 80, rows: 24, environment: {}, directory: ".", input: nil, &on_output)
    new(columns, rows).run(command, environment, directory, input, &on_output)
  end

  def initialize(columns, rows)
    @columns = columns
    @rows = rows
    @lines = [+""]       # all lines, also those that have left the screen
    @row = @column = 0   # in @lines
    @bytes = +"".b
    @rest = +"".b
    @seen = []           # screens as they were after each piece of output
  end

  def run(command, environment, directory, input)
    PTY.open do |ours, theirs|
      ours.winsize = [@rows, @columns]
      @pid = Process.spawn({ "TERM" => "xterm", "NO_COLOR" => nil }.merge(environment), *command,
                           chdir: directory, in: input || theirs, out: theirs, err: theirs)
      theirs.close
      @ours = ours
      read { yield self if block_given? }
    end
    _, @status = Process.wait2(@pid)
    self
  end

  attr_reader :pid

  # The user makes the window wider or narrower. (Lines that are there are not wrapped anew.)
  def resize(columns)
    @columns = columns
    @ours.winsize = [@rows, columns]
  end

  def type(text)
    @ours.write(text)
  end

  # @return [Array<String>] what is to be seen now and above, without spaces at the ends of lines
  def lines
    @lines.map(&:rstrip)
  end

  # @return [Array<Array<String>>] the last lines after each piece of output
  attr_reader :seen

  def take(bytes)
    @bytes << bytes
    text = @rest + bytes
    # A sequence or a character may have come in part.
    cut = text.rindex("\e")
    whole = cut && text.byteslice(cut..).match?(/\A\e(\[\??[\d;]*)?\z/n) ? text.byteslice(0, cut) : text
    whole = whole.byteslice(0, whole.bytesize - 1) until whole.dup.force_encoding("UTF-8").valid_encoding? || whole.empty?
    @rest = text.byteslice(whole.bytesize..)
    interpret(whole.dup.force_encoding("UTF-8"))
    @seen << lines.last(6)
  end

  private

  def read
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
    loop do
      left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      unless @ours.wait_readable([left, 0].max)
        Process.kill(:KILL, @pid)
        raise "nothing more came in #{LIMIT} s; so far:\n#{lines.join("\n")}"
      end
      take(@ours.readpartial(1 << 16))
      yield
    end
  rescue EOFError, Errno::EIO
    nil # all who had the terminal are gone
  end

  def interpret(text)
    until text.empty?
      if (found = text.match(/\A#{SEQUENCE}/))
        control(found[1], found[2])
        text = found.post_match
      else
        put(text[0])
        text = text[1..]
      end
    end
  end

  def control(words, letter)
    number = words.to_i
    case [words, letter].join
    when "?1049h" then enter_other_screen
    when "?1049l" then leave_other_screen
    when "?25h", "?25l", /\A[\d;]*m\z/ then nil
    when /\A\d*K\z/ then line.replace(line[0, @column].to_s)
    when "2J" then @lines.map! { +"" }
    when "J"
      line.replace(line[0, @column].to_s)
      @lines.slice!(@row + 1..)
    when /\A\d*A\z/ then @row = [@row - [number, 1].max, @lines.size - @rows, 0].max
    when /\A(\d+;\d+)?H\z/
      row, @column = words.empty? ? [0, 0] : words.split(";").map { |place| place.to_i - 1 }
      @row = [@lines.size - @rows, 0].max + row
      @lines << +"" while @lines.size <= @row
    else raise "unknown sequence: ESC [ #{words} #{letter}"
    end
  end

  # Programs that use the whole screen have one of their own; what was there before comes back.
  def enter_other_screen
    @first_screen = [@lines, @row, @column]
    @lines = Array.new(@rows) { +"" }
    @row = @column = 0
  end

  def leave_other_screen
    @lines, @row, @column = @first_screen
  end

  def put(character)
    case character
    when "\r" then @column = 0
    when "\n" then down
    when "\a" then nil
    when /[[:cntrl:]]/ then raise "unknown control character #{character.inspect}"
    else
      down && @column = 0 if @column >= @columns
      line << (" " * (@column - line.size)) if line.size < @column
      line[@column] = character
      @column += 1
    end
  end

  def down
    @row += 1
    @lines << +"" if @row == @lines.size
    true
  end

  def line
    @lines[@row]
  end
end
