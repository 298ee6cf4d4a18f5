# frozen_string_literal: true

# The order in which rake would come to tasks from those that the command line names: prerequisites first, from left to
# right. It looks up what is defined, and defines nothing: neither rules nor files without a task are asked.

module Rakuda
  module RakeOrder
    class << self
      # @param application [Rake::Application]
      # @param tasks [Array<Rake::Task>]
      # @return [Array<Rake::Task>] the same; those that rake would not come to stand last, in the order given
      def of(application, tasks)
        wanted = {}.compare_by_identity
        tasks.each { |task| wanted[task] = true }
        found = walk(roots(application), wanted)
        found.each { |task| wanted.delete(task) }
        found + wanted.keys
      end

      private

      def roots(application)
        application.top_level_tasks.filter_map do |word|
          application.lookup(application.parse_task_string(word).first)
        end
      end

      def walk(roots, wanted)
        found = []
        seen = {}.compare_by_identity
        stack = roots.reverse.map { |task| [task, false] }
        while found.size < wanted.size && (task, is_left = stack.pop)
          if is_left
            found << task if wanted.key?(task)
          elsif !seen.key?(task)
            seen[task] = true
            stack << [task, true]
            prerequisites(task).reverse_each { |one| stack << [one, false] }
          end
        end
        found
      end

      def prerequisites(task)
        names = task.prerequisites + task.order_only_prerequisites
        names.filter_map do |name|
          found = task.application.lookup(name.to_s, task.scope)
          found.equal?(task) ? task.application.lookup(name.to_s) : found
        end
      end
    end
  end
end
