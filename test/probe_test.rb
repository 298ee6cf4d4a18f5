# frozen_string_literal: true

# Which commands an action would start is found out only where that has no effect whatever. Runs the real front in a
# process of its own, so that the actions are those of a real Rakefile.

require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# Actions that may be asked, and those that may not.
class ProbeTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)

  # Loaded before the actions.
  RAKEFILE = <<~'RUBY'
    CC = "gcc"
    LIST = %w[a b]
    WILD = FileList["*.txt"]
    class Compiler
      def name = system("touch EFFECT")
    end
    COMPILER = Compiler.new
    PATH = Pathname("in1")
    SOURCES = FileList["in*"].tap(&:to_a)
    SLY = Hash.new { system("touch EFFECT") }
    EMPTY = ""
    def EMPTY.to_s = system("touch EFFECT")
    level = "-O2"
    count = 0
    def flags(what) = "-I#{what} #{CC}"
    def sly(_what) = `touch EFFECT`
    def make(object) = Object.define_method(:helper) { object.name }
    make(COMPILER)
    def named(thing) = thing.name
    def lead(list, one) = list.map { |each| one ? each : each.name }
    ACTIONS = {
      # ACTIONS
    }
  RUBY

  # Code of an action, and what it would start.
  ASKED = <<~'RUBY'
    sh "#{CC} #{level} -c #{t.source} -o #{t.name}"                                       ## ["gcc -O2 -c in1 -o out"]
    mkdir_p File.dirname(t.name); sh CC, flags("x"), *t.prerequisites; cp "in1", t.name   ## [["gcc", "-Ix gcc", "in1", "in2"]]
    LIST.each { |one| sh "echo #{one} #{args.foo}" if one > "a" }                         ## ["echo b FOO"]
    puts "EFFECT"; sh({ "A" => "b" }, "ls", "x y", chdir: "/")                            ## [["ls", "x y"]]
    sh "a #{t.prerequisites.map(&:upcase).join}"                                          ## ["a IN1IN2"]
    local = 1; LIST.each { local += 1 }; sh "echo #{format("%03d", local)}"               ## ["echo 003"]
    rm_rf LIST; touch "EFFECT"; warn "EFFECT"                                             ## []
    sh "echo #{ENV.fetch("PROBED")}"                                                      ## ["echo yes"]
    sh "#{t.name.ext("o")} #{"a/b.c".pathmap("%n%x %{a,d}p")} #{"a b".shellescape}"       ## ["out.o b.c d/b.c a\\ b"]
    sh "cc", *SOURCES, *SOURCES.map(&:upcase), SOURCES.ext("o").join                      ## [["cc", "in1", "IN1", "in1.o"]]
    sh "#{PATH.sub_ext(".o")} #{PATH.dirname} #{PATH + "x"} #{Shellwords.escape("a b")}"  ## ["in1.o . in1/x a\\ b"]
    (1..2).each { |i| sh "a#{i}" }; 2.times { |i| sh "b#{i}" }                            ## ["a1", "a2", "b0", "b1"]
    sh case t.name when /^o(u)/ then "#{$1} #{args.to_h}" else "none" end                 ## ["u {:foo=>\"FOO\"}"]
    sh lead(LIST, 1).each_with_index.map { |one, i| "#{i}#{one}" }.join(" ")              ## ["0a 1b"]
  RUBY

  # Each would write a file, change a variable or a task, print, never end, or cannot be foreseen.
  REFUSED = <<~'RUBY'
    system "touch EFFECT"
    `touch EFFECT`
    COMPILER.name
    sly 1
    File.write("EFFECT", "")
    File.chmod(0, "in1")
    FileUtils.touch "EFFECT"
    Kernel.system "touch EFFECT"
    send(:system, "touch EFFECT")
    open("|touch EFFECT")
    LIST << "x"
    LIST.push "x"
    LIST.map!(&:upcase)
    LIST[0] += "x"
    LIST.delete("a")
    LIST.freeze
    level.upcase!
    level << "x"
    count += 1
    LIST.each { count = 3 }
    other, count = 1, 2
    ENV["PROBED"] = "no"
    ENV.delete("PROBED")
    $global = 1
    @instance = 1
    t.prerequisites << 'x'
    t.invoke
    t.reenable
    t.enhance(['x'])
    def late; end
    Rake::Task["other"].invoke
    task("late")
    loop { }
    while true; end
    sleep
    exit
    abort
    fork
    load "in1"
    eval "1"
    COMPILER.instance_eval { 1 }
    t.actions.each(&:call)
    LIST.map(&:system)
    LIST.each(&t.actions.first)
    sh("true") { |ok, _| rm "in1" }
    begin; sh 'x'; ensure; system 'touch EFFECT'; end
    t.name.gsub(/o/) { `touch EFFECT` }
    sh WILD.join(" ")
    cd("/") { sh "ls" }
    LIST.inject(:concat)
    ["touch EFFECT"].to_enum(:system).each { }
    raise "no"
    raise SystemExit
    catch(:x) { throw :x }
    nowrite(false) { touch "EFFECT" }
    sh "x", noop: true
    [PATH].each(&(t.name == "x" ? :unlink : :to_s))
    [PATH].each(&(t.name == "x" ? :to_s : :unlink))
    PATH.unlink
    PATH.foo
    helper
    named COMPILER
    lead [COMPILER], nil
    PATH.each_line { |line| sh line }
    sh PATH.size.to_s
    sh "x" if PATH.empty?
    sh "x" if File.empty?("in1")
    sh File.size("in1").to_s
    File.select(nil, nil, nil, 0)
    sh "#{SLY["a"]}"
    sh EMPTY
    sh "#{EMPTY}#{[EMPTY].join}"
    (1..).each { }
    (1..).each { |i| break if i < 0 }
    (1..10**18).map { |i| i }
    (10**18).times { }
    1.upto(10**18) { }
    (10**18).times.to_a
    begin; COMPILER.name; rescue Exception; sh "x"; end
    begin; sh("x", noop: true); rescue StandardError; sh "y"; end
    sh "#{COMPILER}"
    "#{t.name}".then { |x| system x }
  RUBY

  # Prints what is found out about each action, and what has changed.
  SCRIPT = <<~'RUBY'
    require "rake"
    require "rakuda"
    require "rakuda/probe"
    self.extend Rake::DSL
    load "Rakefile"
    task = Rake::FileTask.define_task("out", [:foo] => %w[in1 in2])
    arguments = Rake::TaskArguments.new([:foo], ["FOO"])
    state = -> { [LIST, WILD.instance_variable_get(:@pending), ENV.to_h, task.prerequisites, Rake::Task.tasks.map(&:name),
                  global_variables.size, instance_variables, Dir.children(".").sort, Object.private_method_defined?(:late),
                  VARIABLES.call].inspect }
    before = state.call
    probe = Rakuda::Probe.new
    found = ACTIONS.map do |source, action|
      task.actions.replace([action])
      [source, probe.commands(task, arguments)]
    end
    task.actions.clear
    puts JSON.generate("found" => found, "same" => state.call == before)
  RUBY

  def test_commands_are_found_out_with_what_they_depend_on
    expected = ASKED.lines(chomp: true).map { |line| line.split(/ +## /) }.to_h.transform_values { |text| JSON.parse(text) }
    assert_equal expected, ask(expected.keys)
  end

  def test_what_may_have_an_effect_is_not_asked
    codes = REFUSED.lines(chomp: true)
    assert_equal codes.to_h { |code| [code, nil] }, ask(codes)
  end

  def test_methods_that_someone_has_changed_are_not_called
    changed = 'class String; def ext(*) = system("touch EFFECT"); end'
    assert_equal [nil], ask(['sh t.name.ext("o")'], changed).values
    refined = 'module Sly; refine(String) { def strip = system("touch EFFECT") }; end; using Sly'
    assert_equal [nil], ask(["sh t.name.strip"], refined).values
  end

  def test_an_argument_named_like_a_method_of_something_else_is_not_called
    { unlink: "PATH", write: "PATH", delete: "ENV", select: "File" }.each do |name, receiver|
      assert_equal [nil], ask(["#{receiver}.#{name}"], "", name).values
    end
  end

  def test_what_a_rakefile_has_put_in_the_place_of_sh_is_not_foreseen
    changed = 'def self.sh(*words) = super("nice", *words)'
    assert_equal [nil, nil], ask(['sh "a"', 'ruby "b"'], "#{changed}\ndef self.ruby(*) = nil").values
    included = 'module Nice; def sh(*words) = super("nice", *words); end; extend Nice'
    assert_equal [nil], ask(['sh "a"'], included).values
  end

  private

  # @return [Hash{String => Array, nil}] what was found out; checks that nothing has changed
  def ask(codes, first = "", argument = :foo)
    Dir.mktmpdir("rakuda-probe") do |folder|
      entries = codes.map { |code| "#{code.dump} => proc { |t, args| #{code} },\n" }.join
      rakefile = RAKEFILE.sub("# ACTIONS\n") { entries }
      File.write(File.join(folder, "Rakefile"), "#{first}\n#{rakefile}VARIABLES = -> { [level, count] }\n")
      File.write(File.join(folder, "in1"), "touch EFFECT")
      script = SCRIPT.gsub("foo", argument.to_s)
      out, err, status = Open3.capture3({ "PROBED" => "yes" }, "ruby", "-W0", "-I#{LIB}", "-rjson", "-e", script, chdir: folder)
      assert status.success?, err
      assert_equal "", err
      answer = JSON.parse(out)
      assert answer["same"], "something has changed"
      refute_path_exists File.join(folder, "EFFECT")
      answer["found"].to_h
    end
  end
end
