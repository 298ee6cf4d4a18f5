# frozen_string_literal: true

require "fileutils"

module Peers
  # One step of a workload, as tools with explicit build files write it down.
  # `command` is a string without quoting: split at blanks it can be executed, unless `shell` is set.
  # `file` says whether the step makes a file of its own name.
  Step = Struct.new(:name, :command, :prerequisites, :file, :shell, keyword_init: true)

  # A workload: what every tool is given to do, and how one sees that it was done. It does not know the tools.
  class Work
    # The 2 slots that every tool is given.
    SLOTS = 2

    attr_reader :letter, :size
    # The program that a process-per-task workload starts; the check run puts a counting one in its place.
    attr_accessor :program

    def initialize(letter, size)
      @letter = letter
      @size = size
      @program = "/bin/true"
    end

    # Number of tasks, for the rate.
    def tasks = size

    # Processes that `program` must have been started as; nil where files are counted instead.
    def starts = tasks

    def slots = SLOTS

    # True when everything is up to date: one tree then serves every run, and nothing in it may change.
    def idle? = false

    # What a run finds in its directory.
    def prepare(_directory) = nil

    # nil, or what is wrong with the directory after a run.
    def fault(_directory) = nil

    # The phases of the commands of the floor and of xargs, where there is such a thing.
    def phases = [steps.map(&:command)]

    # @return [Array<Step>] prerequisites come before their dependents
    def steps = raise NotImplementedError

    # @return [Array<String>] the steps that are asked for
    def goals = steps.map(&:name)

    # The Rakefile that rake, Pwrake and Rakuda run.
    def rakefile = raise NotImplementedError

    def snakefile = nil
  end

  # A and G: tasks that depend on nothing.
  class Independent < Work
    def title = "#{size} independent #{program}, a process each"

    def steps
      Array.new(size) { |i| Step.new(name: "t#{i}", command: program, prerequisites: []) }
    end

    def rakefile
      <<~RUBY
        verbose(false)
        #{size}.times do |i|
          task("t\#{i}") { sh "#{program}" }
        end
        task default: Array.new(#{size}) { |i| "t\#{i}" }
      RUBY
    end
  end

  # G: the same with one task.
  class Single < Independent
    def title = "one #{program} from a cold start (a new process; files are in the page cache)"
  end

  # D: each task waits for the one before.
  class Chain < Work
    def title = "a chain of #{size} #{program}, a process each"

    def slots = 1

    def goals = ["t#{size - 1}"]

    def steps
      Array.new(size) { |i| Step.new(name: "t#{i}", command: program, prerequisites: i.zero? ? [] : ["t#{i - 1}"]) }
    end

    def rakefile
      <<~RUBY
        verbose(false)
        #{size}.times do |i|
          task("t\#{i}" => i.zero? ? [] : "t\#{i - 1}") { sh "#{program}" }
        end
        task default: "t#{size - 1}"
      RUBY
    end
  end

  # B: each source is copied, each copy marked as done, and the copies are joined.
  class Files < Work
    CONTENT = "the content of a small file\n"
    FOLDERS = %w[src copy done].freeze

    def title = "#{size} x cp, #{size} x touch, one cat (through a shell): #{tasks} file tasks"

    def tasks = (2 * size) + 1

    def starts = nil

    def goals = ["joined"]

    def prepare(directory)
      FOLDERS.each { |folder| Dir.mkdir(File.join(directory, folder)) }
      size.times { |i| File.write(File.join(directory, "src", i.to_s), CONTENT) }
    end

    def fault(directory)
      FOLDERS.each do |folder|
        count = Dir.children(File.join(directory, folder)).size
        return "#{count} of #{size} files in #{folder}" unless count == size
      end
      joined = File.join(directory, "joined")
      "joined is missing or too short" unless File.exist?(joined) && File.size(joined) == size * CONTENT.bytesize
    end

    def phases
      copies, touches = Array.new(size) { |i| ["cp src/#{i} copy/#{i}", "touch done/#{i}"] }.transpose
      [copies, touches, [join.command]]
    end

    def steps
      pairs = Array.new(size) do |i|
        [Step.new(name: "copy/#{i}", command: "cp src/#{i} copy/#{i}", prerequisites: ["src/#{i}"], file: true),
         Step.new(name: "done/#{i}", command: "touch done/#{i}", prerequisites: ["copy/#{i}"], file: true)]
      end
      pairs.flatten << join
    end

    def rakefile
      <<~RUBY
        verbose(false)
        #{size}.times do |i|
          file("copy/\#{i}" => "src/\#{i}") { |t| sh "cp \#{t.source} \#{t.name}" }
          file("done/\#{i}" => "copy/\#{i}") { |t| sh "touch \#{t.name}" }
        end
        file("joined" => Array.new(#{size}) { |i| "done/\#{i}" }) { sh "cat copy/* > joined" }
        task default: "joined"
      RUBY
    end

    def snakefile
      <<~PYTHON
        rule all:
            input: "joined"
        rule copy:
            input: "src/{i}"
            output: "copy/{i}"
            shell: "cp {input} {output}"
        rule mark:
            input: "copy/{i}"
            output: "done/{i}"
            shell: "touch {output}"
        rule join:
            input: expand("done/{i}", i=range(#{size}))
            output: "joined"
            shell: "cat copy/* > joined"
      PYTHON
    end

    private

    def join
      done = Array.new(size) { |i| "done/#{i}" }
      Step.new(name: "joined", command: "cat copy/* > joined", prerequisites: done, file: true, shell: true)
    end
  end

  # What C and E share: nothing is to be run, and nothing may have been.
  module Idle
    # Everything is this old at least, in seconds, so that a file that a tool writes is newer.
    AGE = 1000

    def idle? = true

    def fault(directory)
      newer = tree(directory).find { |path| File.mtime(path) > @newest }
      "#{newer} was written, although everything was up to date" if newer
    end

    private

    # Sets the modification times of files in steps of ten seconds, oldest first.
    def age(directory, groups)
      start = Time.now - AGE
      groups.each_with_index do |paths, step|
        @newest = start + (10 * step)
        paths.each { |path| File.utime(@newest, @newest, File.join(directory, path)) }
      end
    end
  end

  # C: the work of B, done already.
  class FilesUpToDate < Files
    include Idle

    def title = "#{tasks} file tasks as in B, all up to date"

    def prepare(directory)
      super
      folders = FOLDERS.map { |folder| Array.new(size) { |i| "#{folder}/#{i}" } }
      folders.drop(1).flatten.each { |path| File.write(File.join(directory, path), CONTENT) }
      File.write(File.join(directory, "joined"), CONTENT * size)
      age(directory, folders << ["joined"])
    end

    private

    def tree(directory) = Dir.glob("{src,copy,done}/*", base: directory).map { |path| File.join(directory, path) }
  end

  # E: a wide graph that is loaded and planned; every target is there and newer than its one prerequisite.
  class Plan < Work
    include Idle

    def title = "load and plan #{size} file tasks in #{folders} directories, all up to date; nothing is run"

    def starts = nil

    def prepare(directory)
      folders.times { |folder| Dir.mkdir(File.join(directory, "d#{folder}")) }
      File.write(File.join(directory, "source"), "source")
      names.each { |name| File.write(File.join(directory, name), "") }
      age(directory, [["source"], names])
    end

    def steps
      names.map { |name| Step.new(name: name, command: "touch #{name}", prerequisites: ["source"], file: true) }
    end

    def goals = names

    def rakefile
      <<~RUBY
        verbose(false)
        names = Array.new(#{size}) { |i| "d\#{i % #{folders}}/\#{i}" }
        names.each do |name|
          file(name => "source") { |t| sh "touch \#{t.name}" }
        end
        task default: names
      RUBY
    end

    def snakefile
      <<~PYTHON
        names = [f"d{i % #{folders}}/{i}" for i in range(#{size})]
        rule all:
            input: names
        rule one:
            input: "source"
            output: "d{folder}/{i}"
            shell: "touch {output}"
      PYTHON
    end

    private

    def folders = [100, size].min

    def names = @names ||= Array.new(size) { |i| "d#{i % folders}/#{i}" }

    def tree(directory) = names.map { |name| File.join(directory, name) }
  end

  # Letter => class and full size.
  WORKS = {
    "A" => [Independent, 10_000], "B" => [Files, 1_000], "C" => [FilesUpToDate, 10_000],
    "D" => [Chain, 1_000], "E" => [Plan, 100_000], "G" => [Single, 1]
  }.freeze
end
