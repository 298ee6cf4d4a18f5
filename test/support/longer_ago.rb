# frozen_string_literal: true

require "json"

# Makes a task of an earlier run a long one, by its journal: so tests of what would take too long take no time. It runs
# nothing.
module LongerAgo
  # @param folder [String] where the run was
  # @param seconds [Integer] how much longer the task took
  def self.stretch(folder, task, seconds)
    path = Dir.glob(File.join(folder, ".rakuda/runs/*/journal.jsonl")).max
    number = nil
    lines = File.readlines(path).map do |line|
      event = JSON.parse(line)
      number = event["task"] if event.values_at("event", "name") == ["task_defined", task]
      next line unless number && event.values_at("event", "task") == ["attempt_ended", number]

      more_ns = seconds * 1_000_000_000
      held_ns = [*event["held_ns"][..-2], event["held_ns"].last + more_ns]
      "#{JSON.generate(event.merge('time_ns' => event['time_ns'] + more_ns, 'held_ns' => held_ns))}\n"
    end
    File.write(path, lines.join)
  end
end
