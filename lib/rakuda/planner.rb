# frozen_string_literal: true

# Turns invocations into numbered tasks for the hub: an iterative walk in rake's own order. It decides numbers, edges,
# deferral and cycles; it does not know when anything runs, and waits for nothing.
#
# A task gets its number when all that it needs has one. So numbers are rake's serial order.

require "rakuda/rake_order"

module Rakuda
  # The walk from a task to its prerequisites.
  class Planner
    include Protocol::TaskFlags

    # Tasks that remove what their later siblings make (rake's PackageTask has `repackage: [clobber_package, package]`).
    REMOVING = /(?:\A|:)(?:clean|clobber)(?:[_:]|\z)/.freeze
    NONE = [].freeze

    # The actions that wait for a plan: the one that asked for it, and those that wait for that one.
    # @!attribute least [Integer] the smallest of their numbers
    # @!attribute outer [Waiting, nil]
    Waiting = Struct.new(:number, :least, :outer)

    # One task of the stack. Frames are kept per depth and used again.
    class Frame
      attr_accessor :task, :traits, :prerequisites, :index, :arguments, :barrier, :covered, :deferred, :removed
      attr_reader :numbers

      def initialize
        @numbers = []     # of the prerequisites walked so far
      end

      def fill(task, traits, prerequisites, arguments)
        @task = task
        @traits = traits
        @prerequisites = prerequisites
        @index = 0
        @arguments = arguments
        @numbers.clear
        @barrier = nil    # helper task that stands for numbers[0...covered]
        @covered = 0
        @deferred = nil   # numbers of the deferred ones among them
        @removed = false  # one of them removes files: later ones are looked up when it has run
      end
    end

    # What is kept of a deferred task until it is looked up again.
    # @!attribute later [Array<Array(Array<Integer>, Integer)>, nil] deferred tasks walked before it (lists that grow,
    #   and how much of each counts): waited for when the first look-up fails
    Deferral = Struct.new(:task, :parent, :arguments, :later)

    # What `plan_together` has made.
    # @!attribute numbers [Array<Integer>] to be waited for
    # @!attribute planned [Integer] how many tasks were planned
    # @!attribute error [Exception, nil] why the next one could not be
    # @!attribute begins [Integer] the number at which the plan begins
    Plan = Struct.new(:numbers, :planned, :error, :begins)

    # @return [Array<Rake::Task, nil>] by number; nil for helper tasks
    attr_reader :tasks

    # @param application [Application]
    # @param link [Link]
    # @param log [TraceLog, nil]
    # @param needs [StaticNeeds, nil] in a dry run that prints line by line
    def initialize(application, link, log, needs = nil)
      @application = application
      @link = link
      @log = log
      @needs = needs
      @table = RakeBridge.task_table(application)
      @kinds = TaskKinds.new(application)
      # In a dry run nothing is removed.
      @parallel = !application.serial? && !application.options.dryrun
      @tasks = []
      @parents = []            # by number: the task that was being walked, or the chain of a root
      @arguments = {}          # by number, for those that are not empty
      @deferrals = {}          # by number
      @requirements = {}       # properties => number
      @parameters, @files = {}.compare_by_identity, {}.compare_by_identity # of `needs` => number
      @rules = Rules.new(link, sources_max: sources_max)
      @walks = 0
      @frames = []
      @in_use = 0              # frames of walks that are going on (a rule's proc may invoke a task)
      @settled_below = 0
      @superseded = {}         # numbers of tasks that were planned anew: nothing is left to do for them
      @waiting = nil           # the actions that wait for the plan being made
      @waiting_numbers = nil   # their numbers, once they are asked for
      @harmless = nil          # tasks found not to depend on them
      @beside = nil            # frame of the tasks that stand before the root on the command line
      @continues = application.continues?
      @from_outside = false    # the plan being made is not that of an action
    end

    # @return [Boolean] whether the task of that number has been planned anew under another one
    def superseded?(number)
      @superseded.key?(number)
    end

    # @return [Boolean] whether a walk is going on
    def walking?
      @in_use.positive?
    end

    # No invocation is going on: all that was planned has been settled, or never will be.
    def settle_all
      @settled_below = @tasks.size
    end

    # Another planner follows: what was planned here is done.
    def release_tasks
      @tasks.each { |task| task.rakuda_number = nil if task }
    end

    # Tasks of an invocation that failed: those that have not been started may be invoked again later.
    # @param range [Range<Integer>]
    def forget_unstarted(range)
      @tasks[range].each { |task| task.rakuda_forget if task && !task.rakuda_started && !task.rakuda_exception }
    end

    # @return [Rake::TaskArguments] what the action of a task gets
    def arguments(number)
      task = @tasks[number]
      @arguments[number] || (takes_arguments?(task) ? fresh_arguments(number, task) : Rake::EMPTY_TASK_ARGS)
    end

    # Plans a task and all that it needs and that has not been planned.
    # @param arguments [Rake::TaskArguments, nil]
    # @param base [Rake::InvocationChain, nil] what invokes it
    # @return [Integer, nil] number; nil when nothing has to be waited for
    # @param waiting [Waiting, nil] tasks whose actions wait for this plan
    # @param beside [Frame, nil] what stands before it on the command line
    def plan(root, arguments, base, waiting = nil, beside = nil)
      first = @tasks.size
      former = @beside
      @beside = beside
      @waiting = waiting
      @waiting_numbers = nil
      @harmless = {}.compare_by_identity
      @from_outside = waiting.nil? && base.nil?
      @application.join_streams
      walk(root, arguments, base).tap { complete_gangs }
    rescue StandardError, SystemStackError
      forget(first)
      raise
    ensure
      @beside = former
    end

    # Plans tasks as a list of prerequisites: what cannot be looked up yet is looked up again when those before it have
    # run. Ends at the first that cannot be planned at all.
    # @param roots [Array<Array(Rake::Task, Rake::TaskArguments)>]
    # @return [Plan]
    def plan_together(roots)
      plan = Plan.new([], 0, nil, @tasks.size)
      beside = Frame.new.tap { |frame| frame.fill(nil, nil, NONE, nil) }
      roots.each do |task, arguments|
        @link.end_plan
        number = plan(task, arguments, nil, nil, beside)
        beside.numbers << number if number
        plan.planned += 1
      end
      plan
    rescue StandardError, SystemStackError => e
      plan.tap { plan.error = e }
    ensure
      plan.numbers = beside.numbers.uniq
    end

    # Plans tasks that are not going to run, as far as they can be looked up.
    # @param roots [Array<Rake::Task>]
    def plan_unreached(roots)
      log, continues = @log, @continues
      @log = nil
      @continues = true # what failed may be among the prerequisites
      roots.each do |task|
        @link.end_plan
        plan(task, nil, nil)
      rescue StandardError, SystemStackError
        next # nobody asks for the reason any more
      end
    ensure
      @log = log
      @continues = continues
    end

    # Looks up a deferred task's prerequisites again, plans what is found and links it.
    # @raise rake's error when a prerequisite cannot be found now either
    def resolve(number)
      deferral = @deferrals.delete(number)
      return unless deferral

      @log&.insert_at(number)

      task = deferral.task
      numbers = nil
      prerequisites = find_all(task)
      if prerequisites
        numbers = walk_list(prerequisites, task, deferral.arguments)
      elsif deferral.later
        before = deferral.later.flat_map { |list, count| list.first(count) }
        numbers = [helper(before, Deferral.new(task, deferral.parent, deferral.arguments, nil))]
      else
        look_up_all!(task)
      end
      complete_gangs
      @link.send_message("AddPrerequisites", task.rakuda_number, numbers, flags(task, @kinds.of(task)))
    end

    # A planned task that has not started got more prerequisites or actions.
    # @param names [Array<String>, nil]
    def extend_task(task, names)
      number = task.rakuda_number
      return if number.nil? || number < @settled_below || task.rakuda_started || @deferrals.key?(number)

      arguments = @arguments[number]
      found, missing = (names || []).partition { |name| RakeBridge.find_prerequisite(task, name) }
      numbers = walk_list(found.map { |name| RakeBridge.find_prerequisite(task, name) }, task, arguments)
      numbers << helper([], Deferral.new(task, @parents[number], arguments, nil)) unless missing.empty?
      complete_gangs
      @link.send_message("AddPrerequisites", number, numbers, flags(task, @kinds.of(task)))
    end

    # @return [Rake::InvocationChain] TOP => ... => the task of that number
    def chain(number)
      tasks = []
      base = nil
      while number
        task = @tasks[number] || @deferrals[number]&.task
        tasks.unshift(task) if task && !tasks.first.equal?(task)
        parent = @parents[number]
        break base = parent if parent.is_a?(Rake::LinkedList)

        number = parent&.rakuda_number
        number = nil if number&.negative?
        break if tasks.size > @tasks.size
      end
      RakeBridge.chain(tasks, base)
    end

    # @return [Array<Rake::Task>] the task of a number and those that led to it, the outermost last
    def ancestors(number)
      chain(number).to_a
    end

    # @return [Boolean] whether the hub has to ask whether the task is needed, and its timestamp
    def asked?(task)
      @kinds.of(task).kind == Protocol::TaskKind::ASKED
    end

    # @return [TaskKinds::Traits]
    def traits(task)
      @kinds.of(task)
    end

    private

    def takes_arguments?(task)
      actions = task.actions
      return true unless actions.size == 1

      arity = actions[0].arity
      arity.negative? || arity > 1
    end

    # As rake: a task invoked by name without arguments has no values, a prerequisite has as many nils as names.
    def fresh_arguments(number, task)
      names = task.arg_names
      parent = @parents[number]
      Rake::TaskArguments.new(names, parent.is_a?(Rake::Task) ? names.map { nil } : [])
    end

    # Plans the other tasks of all gangs of which one has been planned, and tells the hub who belongs together.
    def complete_gangs
      return unless @gangs_met

      done = {}.compare_by_identity
      while (met, parent = @gangs_met.shift)
        next if done.key?(met)

        done[met] = true
        unnumbered(met).each { |task| walk(task, nil, parent) unless task.rakuda_number }
      end
      done.each_key { |gang| send_gang(gang) }
    end

    # Of tasks that streams join the numbers say which comes first where they run one after the other.
    def unnumbered(gang)
      tasks = gang.tasks.reject(&:rakuda_number)
      tasks.size > 1 && @application.component_of(gang) ? RakeOrder.of(@application, tasks) : tasks
    end

    # Tells the hub of a gang, and of the streams that have made it.
    def send_gang(gang)
      @link.send_message("DefineGang", gang.tasks.map { |task| gang_number(task) }, gang.oversubscribe)
      component = @application.component_of(gang)
      @link.send_message("DefineComponent", component.definition(@application.spools?(component))) if component
    end

    def gang_number(task)
      number = task.rakuda_number
      return number if number && number >= @settled_below

      raise RakefileError, "task #{task.name} belongs to a gang, and cannot run without the others of it"
    end

    def forget(first)
      @gangs_met&.clear
      return unless @link.forget_definitions(@tasks.size - first)

      @tasks.slice!(first..).each { |task| task&.rakuda_forget }
      @parents.slice!(first..)
      @arguments.delete_if { |number,| number >= first }
      @deferrals.delete_if { |number,| number >= first }
    end

    # Walks further prerequisites of a planned task.
    # @return [Array<Integer>]
    def walk_list(prerequisites, parent, arguments)
      prerequisites.map do |child|
        walk(child, arguments&.new_scope(child.arg_names), parent)
      end.compact
    end

    # @param parent [Rake::Task, Rake::InvocationChain, nil]
    def walk(root, arguments, parent)
      mark = (@walks -= 1)
      bottom = @in_use
      number = visit(root, arguments, parent, mark, bottom)
      while @in_use > bottom
        frame = @frames[@in_use - 1]
        child = frame.prerequisites[frame.index]
        if child
          frame.index += 1
          number = visit(child, child_arguments(frame, child), frame.task, mark, bottom)
          note(frame, child, number) if number
        else
          number = leave(frame, @in_use - 1 > bottom ? @frames[@in_use - 2].task : parent)
          @in_use -= 1
          note(@frames[@in_use - 1], frame.task, number) if @in_use > bottom
        end
      end
      number
    rescue Exception => e # rubocop:disable Lint/RescueException -- the marks must go, whatever it is
      unwind(bottom, e, parent)
      raise
    end

    # A prerequisite of a frame's task has its number.
    def note(frame, child, number)
      frame.numbers << number
      frame.removed ||= @parallel && child.instance_of?(Rake::Task) && REMOVING.match?(child.name)
    end

    def child_arguments(frame, child)
      arguments = frame.arguments
      arguments && arguments.new_scope(child.arg_names)
    end

    # A task is met.
    # @return [Integer, nil] its number when it has one; nil when it was pushed on the stack, or is done
    def visit(task, arguments, parent, mark, bottom)
      if task.already_invoked
        @log&.again(task)
        number = task.rakuda_number
        return failed_before(task, number) if task.rakuda_exception
        return nil if number.nil?
        return cycle(task, bottom, parent) if number == mark
        return nil if number < @settled_below

        return number unless @waiting && number >= @waiting.least
        return nil if waits?(number)
        return number unless waits_for_caller?(task)

        # Rake would run it now, before the caller's action ends; so it is planned anew.
        @superseded[number] = true
        task.rakuda_forget
      end
      traits = @kinds.of(task)
      @log&.enter(task) unless traits.opaque
      return postpone(task, traits, arguments, mark, bottom, parent) if @in_use > bottom && @frames[@in_use - 1].removed

      prerequisites = task.prerequisites
      if traits.opaque || (prerequisites.empty? && task.order_only_prerequisites.empty?)
        task.rakuda_enter(mark)
        return define(task, traits, NONE, arguments, parent, 0)
      end

      enter(task, traits, arguments, mark, bottom, parent)
    end

    # As in rake its exception is raised again. But what else the command line asks for goes on without it where that is
    # wanted.
    def failed_before(task, number)
      return number if @continues && @from_outside && number && !number.negative?

      raise task.rakuda_exception
    end

    def push(task, traits, arguments, mark)
      task.rakuda_enter(mark)
      depth = @in_use
      frame = (@frames[depth] ||= Frame.new)
      frame.fill(task, traits, NONE, arguments)
      @in_use = depth + 1
      frame
    end

    # An earlier sibling removes files: the task is looked up, with all that it needs, when that has run.
    def postpone(task, traits, arguments, mark, bottom, parent)
      push(task, traits, arguments, mark)
      defer(task, traits, arguments, parent, bottom)
    end

    # @return [Integer, nil] the number when the task is deferred; otherwise it is on the stack now
    def enter(task, traits, arguments, mark, bottom, parent)
      frame = push(task, traits, arguments, mark)
      found = find_all(task)
      return defer(task, traits, arguments, parent, bottom) unless found

      found.reverse! if traits.reversed
      frame.prerequisites = found
      nil
    end

    # Whether the action of a task waits for this very plan.
    def waits?(number)
      @waiting_numbers ||= begin
        numbers = {}
        one = @waiting
        while one
          numbers[one.number] = true
          one = one.outer
        end
        numbers
      end
      @waiting_numbers.key?(number)
    end

    # Whether a planned task needs one whose action waits for this very plan.
    def waits_for_caller?(task)
      seen = {}.compare_by_identity
      stack = [task]
      while (one = stack.pop)
        number = one.rakuda_number
        next if number.nil? || number < @waiting.least || seen[one] || @harmless[one]
        return true if waits?(number)

        seen[one] = true
        stack.concat(find_all(one) || NONE)
      end
      @harmless.update(seen)
      false
    end

    # All prerequisites are looked up together, as rake does.
    # @return [Array<Rake::Task>, nil] nil when one cannot be found
    def find_all(task)
      top = task.scope.equal?(RakeBridge::TOP_SCOPE)
      names = task.prerequisites
      found = Array.new(names.size)
      names.each_with_index do |name, index|
        found[index] = find(task, name, top) || (return nil)
      end
      task.order_only_prerequisites.each { |name| found << (find(task, name, top) || (return nil)) }
      found
    end

    # Outside namespaces a name in the table is what rake's lookup finds, unless the name has a prefix.
    def find(task, name, top)
      hit = @table[name] if top
      return hit if hit && !RakeBridge::SPECIAL.match?(name)

      RakeBridge.find_prerequisite(task, name)
    end

    # All prerequisites of the topmost task have numbers.
    def leave(frame, parent)
      define(frame.task, frame.traits, frame.numbers, frame.arguments, parent, 0)
    end

    def define(task, traits, numbers, arguments, parent, more_flags)
      needed = task.rakuda_properties || @application.rule_properties(task)
      # It may raise, so it comes before the task has a number.
      depended_on = needed&.depended_on { |file| made?(file) }
      number = @tasks.size
      @tasks << task
      @parents << parent
      @arguments[number] = arguments if arguments
      task.rakuda_number = number
      gang = @application.gangs.of(task)
      gang&.check&.call
      (@gangs_met ||= []) << [gang, parent] if gang
      kind = traits.opaque && traits.kind == Protocol::TaskKind::FILE ? Protocol::TaskKind::ASKED : traits.kind
      @link.define_task(number, kind, flags(task, traits) | more_flags, task.name, needed ? requirement(task, needed) : 0,
                        numbers, @rules.number(task.actions), depended_on ? parameters(depended_on) : 0,
                        needed&.files ? files(needed.files) : 0)
      @needs&.add(number, task, more_flags.zero? ? kind : Protocol::TaskKind::ASKED, numbers)
      @log&.defined(number, task)
      number
    end

    # Whether a task makes a file; what is there already and has no action is made by none.
    def made?(file)
      task = @application.lookup(file)
      !task.nil? && !task.actions.empty?
    end

    def flags(task, traits)
      return HAS_ACTION | OWN_WAY if traits.opaque || traits.acts
      return HAS_ACTION if !task.actions.empty? || traits.kind == Protocol::TaskKind::ASKED

      RakeBridge.rule_matches?(@application, task.name) ? HAS_ACTION : 0
    end

    # Of how many blocks the source is read: of those that are compared all, and none where no record is kept.
    def sources_max
      @application.configuration.rerun_on.include?("command") ? Float::INFINITY : Rules::SOURCES_MAX
    end

    def requirement(task, needed)
      return 0 unless needed.requirement?

      @requirements[needed.fields] ||
        Needs.by_attempt(needed.fields).reverse.reduce(nil) do |after, fields|
          fields = fields.merge("after_failure" => after) if after
          requirement_of(fields, task, needed.place)
        end
    end

    # @return [Integer] the number of these properties; they are defined when they are new
    def requirement_of(fields, task, place)
      @requirements[fields] ||= (@requirements.size + 1).tap do |id|
        @link.send_requirement(id, fields, task.name.b, place&.b)
      end
    end

    # @param list [Array] what one `needs` says
    def parameters(list)
      @parameters[list] ||= (@parameters.size + 1).tap { |id| @link.send_parameters(id, list) }
    end

    # @param declared [Hash] what one `needs` says
    def files(declared)
      @files[declared] ||= (@files.size + 1).tap { |id| @link.send_files(id, declared) }
    end

    # A prerequisite of the topmost task cannot be found yet. It is looked up again when everything walked before it
    # has been settled; without anything before it, this is rake's error.
    def defer(task, traits, arguments, parent, bottom)
      before, later = preceding(bottom)
      look_up_all!(task) if before.empty? && later.empty?
      @in_use -= 1
      before, later = later.flat_map { |list, count| list.first(count) }, [] if before.empty?
      number = define(task, traits, before, arguments, parent, DEFERRED)
      @deferrals[number] = Deferral.new(task, parent, arguments, later.empty? ? nil : later)
      remember_deferred(number, bottom)
      number
    end

    # Raises rake's error for the first prerequisite that cannot be found.
    def look_up_all!(task)
      task.prerequisites.each { |name| task.rakuda_lookup!(name) }
      task.order_only_prerequisites.each { |name| task.rakuda_lookup!(name) }
    end

    # @return [Array(Array<Integer>, Array)] what precedes the topmost task on each level of the stack, and the
    #   deferred tasks of each level, which it waits for only when it must
    def preceding(bottom)
      before = []
      later = []
      [*@beside, *@frames[bottom...(@in_use - 1)]].each do |frame|
        cover(frame)
        before << frame.barrier if frame.barrier
        later << [frame.deferred, frame.deferred.size] if frame.deferred
      end
      [before, later]
    end

    # Makes one helper task stand for what a frame has walked, so that many deferred tasks do not each name it all.
    def cover(frame)
      return if frame.covered == frame.numbers.size

      fresh = frame.numbers.drop(frame.covered)
      fresh.reject! { |number| @deferrals.key?(number) }
      frame.covered = frame.numbers.size
      return if fresh.empty?

      fresh << frame.barrier if frame.barrier
      frame.barrier = fresh.size == 1 ? fresh.first : helper(fresh, nil)
    end

    def remember_deferred(number, bottom)
      frame = @in_use > bottom ? @frames[@in_use - 1] : @beside
      (frame.deferred ||= []) << number if frame
    end

    # A task of the hub's graph alone.
    def helper(numbers, deferral)
      number = @tasks.size
      @tasks << nil
      @parents << deferral&.parent
      @deferrals[number] = deferral if deferral
      @link.define_task(number, Protocol::TaskKind::PLAIN, deferral ? DEFERRED : 0, "", 0, numbers, 0, 0, 0)
      @needs&.add(number, nil, Protocol::TaskKind::PLAIN, numbers)
      @log&.defined(number, nil)
      number
    end

    def cycle(task, bottom, parent)
      tasks = @frames[bottom...@in_use].map(&:task)
      base = parent if parent.is_a?(Rake::LinkedList)
      raise "Circular dependency detected: #{RakeBridge.chain(tasks, base)} => #{task.name}"
    end

    # An exception leaves the walk: the tasks on its stack have failed, with rake's chain.
    def unwind(bottom, exception, parent)
      tasks = []
      while @in_use > bottom
        @in_use -= 1
        tasks.unshift(@frames[@in_use].task)
      end
      base = parent.is_a?(Rake::LinkedList) ? parent : nil
      base = RakeBridge.chain(ancestors_of(parent), nil) if parent.is_a?(Rake::Task)
      RakeBridge.add_chain(exception, RakeBridge.chain(tasks, base))
      tasks.each do |task|
        task.rakuda_number = nil
        task.rakuda_fail(exception)
      end
    end

    def ancestors_of(task)
      number = task.rakuda_number
      number && number >= 0 ? ancestors(number).reverse : [task]
    end
  end
end
