# frozen_string_literal: true

require "io/nonblock"
require "minitest/autorun"
require "socket"
require "rakuda"
require "rakuda/link"

# Frames that the front sends: their length, and that all messages are in them, in order.
class LinkTest < Minitest::Test
  # What the engine takes.
  FRAME_MAX = 64 << 20

  # @return [Array<String>] frames that a block sends, without their lengths
  def frames
    ours, theirs = UNIXSocket.pair
    ours.nonblock = false
    reader = Thread.new { theirs.read }
    link = Rakuda::Link.new(ours)
    yield link
    link.flush
    link.close
    sent = reader.value.b
    list = []
    list << sent.slice!(0, 4 + sent.unpack1("N")).byteslice(4..) until sent.empty?
    list
  end

  # @return [Array<Array(String, Array)>]
  def messages(frames)
    frames.each_with_object([]) do |frame, list|
      MessagePack::Unpacker.new.tap { |unpacker| unpacker.feed(frame) }.each { |message| list << message.first }
    end
  end

  def test_a_frame_of_long_messages_stays_within_what_the_engine_takes
    long = "x" * (1 << 20)
    sent = frames do |link|
      1.upto(70) { |id| link.send_parameters(id, [["seed", long]]) }
      1.upto(9) { |id| link.send_files(id, { "outputs" => [long], "place" => "Rakefile:1" }) }
      1.upto(9) { |number| link.send_command_line(number, 0, long, {}, nil) }
    end
    assert_operator sent.map(&:bytesize).max, :<, FRAME_MAX
    kinds = messages(sent).map { |name, fields| [name, fields.first] }
    counts = { "DefineParameters" => 70, "DefineFiles" => 9, "StartCommand" => 9 }
    assert_equal counts.flat_map { |name, count| (1..count).map { |number| [name, number] } }, kinds
  end

  def test_tasks_that_are_collected_come_behind_the_parameters_that_they_have
    sent = frames do |link|
      1.upto(20) do |id|
        link.send_parameters(id, [["seed", "x" * (1 << 20)]])
        link.define_task(id, 0, 0, "task#{id}", 0, [], 0, id, 0)
      end
    end
    assert_operator sent.size, :>, 1
    known = []
    messages(sent).each do |name, fields|
      known << fields.first if name == "DefineParameters"
      fields.first.each { |task| assert_includes known, task[7] } if name == "DefineTasks"
    end
    assert_equal (1..20).to_a, known
  end
end
