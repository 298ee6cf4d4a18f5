# frozen_string_literal: true

require "fileutils"
require "open3"
require "socket"
require "tmpdir"
require_relative "terminal"
require_relative "understood"

# A page that is followed to the letter: files are written, commands run on a terminal, and what they print
# is compared with the page. Marks in the pages, which readers do not see:
#
#   <!-- folder -->        an empty folder begins
#   <!-- files of: PAGE#SECTION -->  the files of a section of another page are here, to which a link leads
#   <!-- checkout -->      what follows is in a copy of the checkout, whose engine is built already
#   <!-- sources -->       from here on Rakuda's sources are in ~/rakuda
#   <!-- machine: NAME --> from here on this machine is called so by the page
#   <!-- port: N -->       from here on that port is one that is free here
#   <!-- hosts -->         from here on every host is this machine, with a folder for temporary files of its own
#   <!-- until: CONDITION -->  waits for what a command of the shell tells; a reader is slow enough
#   <!-- file: NAME -->    the next block, indented or fenced, is that file
#   <!-- typed -->         the lines of the next block are typed as they are, and print nothing
#   <!-- status: N -->     the last command of the next block ends so
#   <!-- labels -->        of what the next block prints only what lines begin with is compared, before its table
#   <!-- numbers -->       of what the next block prints numbers are not compared, whatever their units
#   <!-- soon -->          likewise, and the only command of the next block is asked again until it prints that
#   <!-- service -->       the only command of the next block runs beside what follows when it has printed what stands there, but
#                          for numbers; at the end of its folder it is told to end, and ends well
#   <!-- meanwhile -->     the only command of the next block runs beside what follows, and has ended well with the folder
#   <!-- each -->          in the next table all commands of the last column are run, with RUN for the last run
#   <!-- each but X -->    the same without those that match X
#   <!-- each with A=b ... but X -->  likewise, with b for the word A
#   <!-- tried -->         commands of the next block, which are all of its lines when none begins with `$ `, end well; what they
#                          print is not compared
#   <!-- understood -->    the lines of the next block are commands that are not run: their programs take them (understood.rb)
#   <!-- not run: WHY -->  the next block is not run
#
# A block with lines that begin with `$ ` is run; an indented one that is neither run nor a file needs the last of these
# marks. A line `...` stands for any lines; without it, lines are compared in any order, since tasks run side by side.
# Times, names of runs and of this machine are not compared. A command that names a run of the page, by its beginning or
# as ID, is about the run in its place; /the/folder is the folder at hand, `vm` this machine. `cd` and `export` hold for
# what follows. Rakuda is installed as `make install` does it, so what stands in no PATH after that is not found here
# either.
#
# Whoever follows a page has what it shows and nothing else. So no mark can write, start or change what a reader cannot
# see: hidden is only what waits, what stands for things that the page tells the reader to have (hosts, ports, a name),
# and what says how a block is to be compared. The name of each file, and that a new folder begins, stand in the text.
#
# Pages of the reference are read, not followed, and have two things more. A block may be a form, which says what a
# command may look like; its options are looked at by docs_test.rb. And
#
#   <!-- setup             the lines up to --> are run by the shell: what the page takes as given
#
# A setup that starts a service writes its first line into the file `service`: that one is meant by
# http://127.0.0.1:9300. Its number is in `service.pid`, until a setup has ended it.
class Walk
  ROOT = File.expand_path("../..", __dir__)
  WORDS = ["folder", "files of:", "checkout", "sources", "machine:", "port:", "hosts", "until:", "file:", "typed", "status:",
           "labels", "numbers", "soon", "service", "meanwhile", "each with", "each but", "each", "tried", "understood",
           "not run:"].freeze
  MARK = /\A<!-- (?<word>#{Regexp.union(WORDS)})(?: (?<value>.+?))? -->\z/
  # A host of `<!-- hosts -->`: whose options end with `--`, or who has none.
  SSH = <<~'SH'
    #!/bin/sh
    case " $* " in *" -- "*) while test "$1" != --; do shift; done; shift ;; esac
    host=$1
    shift
    export TMPDIR="$HOSTS/$host" XDG_CACHE_HOME="$HOSTS/cache"
    mkdir -p "$TMPDIR"
    exec sh -c "$*"
  SH
  # Pages that need what is not on every system that Rakuda is for: make, compilers, the I/O kernels.
  BUILDING = %w[installing io-benchmarks coming-from-make].map { |name| "docs/guide/#{name}.md" }.freeze
  NUMBER = /(?<![\w.])-?\d[\d.]*(?:[KMGTP]?i?B|ms|µs|s|min|h|d|%)?(?!\w)|(?<=\s)-(?=\s|\z)/.freeze
  ENGINE = ENV.fetch("RAKUDA_ENGINE", File.join(ROOT, "target/release/rakudad"))
  RUN = /\b\d{8}-\d{6}\.\d{3}-\d+\b/
  # What `mpirun` says no to otherwise, as root and on few cores.
  MPI = { "OMPI_ALLOW_RUN_AS_ROOT" => "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" => "1",
          "OMPI_MCA_rmaps_base_oversubscribe" => "1" }.freeze

  # What a command may look like: words in brackets, or names of what stands there. Further lines belong to the first.
  FORM = /\A(?:rakuda|rakudactl|rakudad|ssh -t) .*(?:\[|\.\.\.|\b[A-Z]{2,}\b)/
  SERVICE = "http://127.0.0.1:9300"
  # What a condition of `<!-- until -->` cannot have: it would do more than look.
  DOING = %r{;|`|(?<!2)>(?! */dev/null)|(?<![.\w])rakuda\b|\b(?:rm|mv|cp|touch|kill|mkdir|ln|sed|tee)\b}.freeze

  # A folder in which Rakuda is installed.
  def self.installation
    @installation ||= Dir.mktmpdir("rakuda-installed").tap do |prefix|
      Minitest.after_run { FileUtils.rm_rf(prefix) }
      said, status = Open3.capture2e({ "PREFIX" => prefix, "DESTDIR" => nil, "ENGINE" => File.expand_path(ENGINE, ROOT) },
                                     File.join(ROOT, "tools/install"), "install")
      raise "tools/install: #{said}" unless status.success?
    end
  end

  # @param page [String] its name from ROOT on
  # @param reference [Boolean] whether it is read, not followed: a block may be a form, and a set-up hidden
  def initialize(test, page, reference: false)
    @test = test
    @reference = reference
    @page = page
    @lines = lines_of(page)
    @commands = 0
    @meanwhile = [] # threads that wait for commands, with what these print and where they stand
    @services = []  # likewise
    @here = {}      # ports and names of the page, by patterns, and what they are here
  end

  def follow
    Dir.mktmpdir("rakuda-walkthrough") do |folder|
      @top = @folder = folder
      begin_folder
      each_block { |mark, block, place| run(mark, block, place) }
      await_meanwhile
      end_beside
    ensure
      @services.each { |thread,| kill(thread) }
      end_service
    end
    @test.assert_operator @commands, :>, 0, "#{@page} has no command"
  end

  private

  def lines_of(page) = File.readlines(File.expand_path(page, ROOT), chomp: true)

  # Indented blocks, with the mark above each. Marks that stand for themselves are heeded on the way.
  def each_block
    mark = nil
    number = 0
    while (line = @lines[number])
      if line == "<!-- setup"
        script = @lines[number + 1..].take_while { |one| one != "-->" }
        set_up(script, number + 1)
        number += script.size + 1
      elsif (found = line.match(MARK))
        mark = found unless heed(found, number + 1)
      elsif (size = block_size(@lines, number))
        yield mark, @lines[number, size], number + 1
        mark = nil
        number += size - 1
      end
      number += 1
    end
  end

  # @return [Boolean] whether the mark stands for itself
  def heed(mark, place)
    case mark[:word]
    when "folder" then begin_another_folder(place)
    when "files of:" then take_files(*mark[:value].split("#"), place)
    when "until:" then wait_until(mark[:value], place)
    when "checkout" then begin_checkout
    when "sources" then File.symlink(ROOT, File.join(@top, ".home/rakuda"))
    when "machine:" then @here[/(?<![\w.-])#{Regexp.escape(mark[:value])}(?![\w.-])/] = Socket.gethostname
    when "port:" then @here[/(?<=:)#{mark[:value]}\b/] = free_port
    when "hosts" then File.write(File.join(@top, ".bin/ssh"), SSH, perm: 0o755)
    else return false
    end
    true
  end

  # What a reader sees above a line: the text from the heading on, and that before the page's first section.
  def text_above(place)
    shown = text.first(place)
    heading = shown.rindex { |line| line.start_with?("#") } || 0
    [*shown.take_while { |line| !line.start_with?("## ") }, *shown.drop(heading)].join("\n")
  end

  # The lines of the page, without marks and blocks.
  def text
    @text ||= begin
      fenced = false
      @lines.map do |line|
        fence = line.start_with?("```")
        fenced = !fenced if fence
        fenced || fence || line.match?(/\A(?: {4}|<!--)/) ? "" : line
      end
    end
  end

  # A reader stays where he is, unless he is told.
  def begin_another_folder(place)
    block = (place...@lines.size).find { |number| block_size(@lines, number) }
    told = @reference || @begun.nil? || text_above(block).include?("folder")
    @test.assert told, "#{@page}:#{place}: a folder begins, and the text does not say so"
    @begun = true
    begin_folder
  end

  def take_files(page, section, place)
    lines = lines_of(page)
    from = lines.index { |line| line.match?(/\A#+ /) && slug(line) == section }
    @test.assert from, "#{@page}:#{place}: #{page} has no section #{section}"
    links = @lines.first(place).join(" ").scan(/\]\(([^)\s]+)\)/).flatten
    links.map! { |link| File.expand_path(link, File.dirname(File.join(ROOT, @page))) }
    told = "#{@page}:#{place}: no link leads to what this takes from #{page}##{section}"
    @test.assert_includes links, File.join(ROOT, "#{page}##{section}"), told
    lines = lines.drop(from + 1).take_while { |line| !line.match?(/\A##? /) }
    lines.each_with_index do |line, number|
      mark = line.match(MARK)
      next unless mark && %w[file: typed].include?(mark[:word])

      from = (number + 1...lines.size).find { |later| block_size(lines, later) }
      block = lines[from, block_size(lines, from)]
      mark[:word] == "file:" ? write(mark[:value], block) : run_typed(unindented(block), place)
    end
  end

  # As pages call their sections in links.
  def slug(heading) = heading.sub(/\A#+ /, "").downcase.gsub(/[^\w\- ]/, "").tr(" ", "-")

  def wait_until(condition, place)
    place = "#{@page}:#{place}: #{condition}"
    @test.refute_match DOING, condition, "#{place}: this does more than to wait"
    await(place) { system(environment, "sh", "-c", condition, chdir: @folder, in: File::NULL, %i[out err] => File::NULL) }
  end

  # Of several none is given twice.
  def free_port
    @ports ||= []
    TCPServer.open("127.0.0.1", 0) { |server| server.addr[1].to_s }.then { |port| @ports.include?(port) ? free_port : port }
                                                                   .tap { |port| @ports << port }
  end

  # @return [Integer, nil] lines of the block, fenced, indented or a table, that begins in this line
  def block_size(lines, number)
    rest = lines[number..]
    case rest.first
    when /\A```/ then rest.drop(1).index("```") + 2
    when /\A {4}/ then rest.take_while { |line| line.start_with?("    ") || line.empty? }.size
    when /\A\|/ then rest.take_while { |line| line.start_with?("|") }.size
    end
  end

  def begin_folder
    await_meanwhile
    end_beside
    @folder = @top
    @exported = {}
    FileUtils.rm_rf(Dir.children(@top).map { |name| File.join(@top, name) })
    FileUtils.mkdir_p([".bin", ".home"].map { |name| File.join(@top, name) })
    File.symlink(Walk.installation, File.join(@top, ".home/.local"))
    @runs = {} # as the page calls them, and as they are called here
  end

  # What is in it may be overwritten. The engine is the one of the tests, so nothing is compiled.
  def begin_checkout
    begin_folder
    File.unlink(File.join(@top, ".home/.local")) # who is at the sources has yet to install them
    @folder = File.join(@top, "rakuda")
    Dir.mkdir(@folder)
    files, status = Open3.capture2("git", "ls-files", "-z", chdir: ROOT)
    @test.assert status.success?, "git ls-files failed: the list of files comes from git"
    there = files.split("\0").select { |path| File.file?(File.join(ROOT, path)) }
    @test.assert system("cp", "--parents", "-P", *there, @folder, chdir: ROOT)
    File.symlink(File.join(ROOT, "target"), File.join(@folder, "target"))
  end

  def set_up(script, place)
    place = "#{@page}:#{place}: setup"
    @test.assert @reference, "#{place}: no reader sees this; show it (`typed`, `file:`), or only wait (`until:`)"
    @commands += 1
    output, status = Open3.capture2e(environment, "sh", "-eu", stdin_data: "#{script.join("\n")}\n", chdir: @folder)
    @test.assert status.success?, "#{place}\n#{output}"
  end

  def run_typed(block, place)
    @commands += 1
    output, status = Open3.capture2e(environment, "bash", "-euc", block.join("\n"), chdir: @folder)
    @test.assert status.success?, "#{@page}:#{place}: typed\n#{output}"
    # But for what the shell says of a job that was killed.
    @test.assert_empty output.lines.grep_v(/\Abash: line \d+: +\d+ Killed /).join, "#{@page}:#{place}: typed"
  end

  def run(mark, block, place)
    return if mark && mark[:word] == "not run:"

    word, value = mark && mark[:word], mark && mark[:value]
    return write_told(value, block, place) if word == "file:"
    return run_each(block, word, value, place) if word&.start_with?("each")
    return unless block.first.start_with?("    ")

    block = unindented(block)
    return run_typed(block, place) if word == "typed"
    return run_tried(block, place) if word == "tried"
    return look_at(block, place) if word == "understood"
    return if @reference && FORM.match?(block.first)

    marks = "#{@page}:#{place}: neither commands, with `$ ` before them, nor marked: #{block.first}"
    @test.assert block.first.start_with?("$ "), marks
    case word
    when "meanwhile" then run_meanwhile(block, place)
    when "service" then run_service(block, place)
    when "soon" then run_soon(block, place)
    else run_commands(block, word, value, place)
    end
  end

  def run_meanwhile(block, place)
    @test.assert_equal 1, block.size, "#{@page}:#{place}: one command, and nothing that it prints"
    @meanwhile << beside(block.first, place)
  end

  # It may have ended by itself, and been waited for.
  def kill(thread)
    Process.kill(:KILL, -thread.pid)
  rescue Errno::ESRCH
    nil
  end

  # @return [Array] who waits for it, what it prints, and where it stands
  def beside(line, place)
    @commands += 1
    command = with_runs(line.delete_prefix("$ "))
    log = File.join(@top, ".meanwhile#{@commands}")
    pid = Process.spawn(environment, "sh", "-c", command, chdir: @folder, in: File::NULL, %i[out err] => log, pgroup: true)
    [Process.detach(pid), log, "#{@page}:#{place}: #{command}"]
  end

  def run_service(block, place)
    thread, log, here = beside("$ exec #{block.first.delete_prefix("$ ")}", place)
    @services << [thread, log, here]
    await(here) { File.read(log).count("\n") >= block.size - 1 || !thread.alive? }
    compare_numbers(block.drop(1), File.readlines(log, chomp: true), here)
  end

  def end_beside
    while (thread, log, place = @services.last)
      Process.kill(:TERM, thread.pid)
      @test.assert thread.join(Terminal::LIMIT), "#{place}: it does not end\n#{File.read(log)}"
      @services.pop
      @test.assert_predicate thread.value, :success?, "#{place}\n#{File.read(log)}"
    end
  end

  def run_soon(block, place)
    here = "#{@page}:#{place}: #{block.first}"
    command = with_runs(block.first.delete_prefix("$ "))
    printed = nil
    await(-> { "#{here}\nprinted:\n#{printed.join("\n")}" }) do
      printed = printed_by(command, 0, here)
      without_numbers(printed) == without_numbers(block.drop(1))
    end
  end

  # Only turns a hang into a failure.
  def await(what)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Terminal::LIMIT
    until yield
      late = Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
      @test.flunk "waited in vain for #{what.respond_to?(:call) ? what.call : what}" if late
      sleep 0.05
    end
  end

  def await_meanwhile
    @meanwhile.each do |thread, log, place|
      ended = thread.join(Terminal::LIMIT)
      Process.kill(:TERM, -thread.pid) && thread.join(Terminal::LIMIT) unless ended
      @test.assert ended, "#{place}: still running at the end of its folder\n#{File.read(log)}"
      @test.assert_predicate thread.value, :success?, "#{place}\n#{File.read(log)}"
    end
    @meanwhile.clear
  end

  def unindented(block) = block.map { |line| line.delete_prefix("    ") }.join("\n").rstrip.lines(chomp: true)

  def run_commands(block, word, value, place)
    asked = block.slice_before { |line| line.start_with?("$ ") }.to_a
    asked.each_with_index do |(command, *lines), index|
      status = index == asked.size - 1 && word == "status:" ? value.to_i : 0
      here = "#{@page}:#{place}: #{command}"
      printed = printed_by(with_runs(command.delete_prefix("$ ")), status, here)
      case word
      when "labels" then compare_labels(lines, printed, here)
      when "numbers" then compare_numbers(lines, printed, here)
      else compare(lines, printed, here)
      end
    end
  end

  def run_tried(lines, place)
    commands = lines.grep(/\A\$ /)
    (commands.empty? ? lines.reject(&:empty?) : commands).each do |line|
      printed_by(with_runs(line.delete_prefix("$ ")), 0, "#{@page}:#{place}: #{line}")
    end
  end

  def look_at(lines, place)
    @commands += lines.size
    faults = lines.flat_map { |line| Understood.new.faults(line) }
    @test.assert_empty faults, "#{@page}:#{place}"
  end

  # What such commands print is not in the page: they end well.
  def run_each(table, word, value, place)
    words, but = word == "each with" ? value.split(" but ") : ["", value]
    words = words.split.to_h { |pair| pair.split("=") }
    but &&= Regexp.new(but)
    commands = table.drop(2).flat_map { |row| row.split(/(?<!\\)\|/).last.scan(/`((?:rakuda|rakudactl)(?: [^`]*)?)`/).flatten }
    commands.reject! { |command| but&.match?(command) }
    @test.refute_empty commands, "#{@page}:#{place}: no command is in this table"
    commands.each do |command|
      last = Dir.glob("*-*", base: File.join(@folder, ".rakuda/runs")).max
      command = command.gsub(/\b[A-Z]+\b/) { |name| { "RUN" => last, **words }.fetch(name, name) }
      printed_by(command, 0, "#{@page}:#{place}: #{command}")
    end
  end

  def write_told(name, block, place)
    told = @reference || text_above(place).match?(%r{(?<![\w./-])#{Regexp.escape(name)}(?![\w/-])})
    @test.assert told, "#{@page}:#{place}: the text does not say that this is the file #{name}"
    write(name, block)
  end

  def write(name, block)
    block = block.first.start_with?("```") ? block[1..-2] : unindented(block)
    path = File.join(@folder, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, "#{block.join("\n")}\n")
  end

  # Without what make tells one that it starts.
  MAKE = %w[MAKEFLAGS MAKELEVEL MFLAGS].to_h { |name| [name, nil] }.freeze

  def environment
    home = File.join(@top, ".home")
    { **MAKE, **MPI, "PATH" => "#{@top}/.bin:#{home}/.local/bin:#{ENV.fetch("PATH")}", "HOME" => home,
      "XDG_CONFIG_HOME" => File.join(home, ".config"), "HOSTS" => File.join(@top, ".hosts"),
      "GEM_HOME" => File.join(home, "gems"), "CARGO" => "true",
      "CARGO_HOME" => ENV.fetch("CARGO_HOME", File.expand_path("~/.cargo")),
      "RUSTUP_HOME" => ENV.fetch("RUSTUP_HOME", File.expand_path("~/.rustup")), **@exported }
  end

  def printed_by(command, status, place)
    @commands += 1
    terminal = Terminal.run("sh", "-c", command, columns: 400, environment: environment, directory: @folder,
                                                            input: File::NULL)
    printed = terminal.lines.join("\n").rstrip
    @test.assert_equal status, terminal.status.exitstatus, "#{place}\n#{printed}"
    keep(command)
    printed.lines(chomp: true)
  end

  # What a command changes for those after it.
  def keep(command)
    if (folder = command[/(?:\A|&& )cd (\S+)\z/, 1]) then @folder = File.expand_path(folder, @folder)
    elsif (name = command[/\Aexport (\w+)=/, 1])
      @exported[name], = Open3.capture2(environment, "sh", "-c", "#{command}; printf %s \"$#{name}\"", chdir: @folder)
    end
  end

  # The command as it has to be here: the page's runs have other names, and so have ports and machines.
  def with_runs(command)
    @here.each { |pattern, here| command = command.gsub(pattern, here) }
    command = command.gsub(SERVICE) { service } if command.include?(SERVICE)
    command = command.gsub("/the/folder", @folder).gsub(/\b\d{8}-\d{6}[\d.-]*/) do |name|
      meant = @runs.keys.select { |run| run.start_with?(name) }
      @test.assert_equal 1, meant.size, "#{@page}: #{command}: the page names #{meant.size} runs that begin so"
      @runs.fetch(meant.first)
    end
    command.include?("/ID/") ? command.gsub("/ID/", "/#{Dir.children(File.join(@folder, ".rakuda/runs")).max}/") : command
  end

  # Of a page that could not be followed to its end.
  def end_service
    Dir.glob("#{@top}/**/service.pid").each do |file|
      Process.kill(:TERM, Integer(File.read(file), 10)) if File.size?(file)
    rescue Errno::ESRCH
      next # it has ended by itself
    end
  end

  def service = File.read(File.join(@folder, "service"))[/\Ahttp:\S+/]

  def compare(expected, printed, place)
    remember(expected, printed)
    place = "#{place}\nprinted:\n#{printed.join("\n")}"
    expected, printed = [expected, printed].map { |lines| lines.map { |line| plain(line) } }
    return @test.assert_equal(expected.sort, printed.sort, place) unless expected.any?(/\.\.\./)

    pattern = expected.map do |line|
      line.strip == "..." ? "(?:.*\n)*?" : "#{Regexp.escape(line).gsub("\\.\\.\\.", ".*")}\n"
    end.join
    @test.assert_match(/\A#{pattern}\z/, printed.map { |line| "#{line}\n" }.join, place)
  end

  def compare_numbers(expected, printed, place)
    @test.assert_equal(*[expected, printed].map { |lines| without_numbers(lines) }, "#{place}\nprinted:\n#{printed.join("\n")}")
  end

  # In any order. What is not known yet is a number, too; this machine is called as here.
  def without_numbers(lines)
    lines = lines.map do |line|
      @here.each { |pattern, here| line = line.gsub(pattern, here) }
      line.gsub(NUMBER, "N").gsub(/ +/, " ").gsub("N (N)", "N")
    end
    lines.sort
  end

  def remember(expected, printed)
    names = [expected, printed].map { |lines| lines.join("\n").scan(RUN).uniq }
    names.first.zip(names.last) { |ours, theirs| @runs[ours] ||= theirs if theirs }
  end

  # The page shows a larger run than the one that is asked here.
  def compare_labels(expected, printed, place)
    names = [expected, printed].map { |lines| lines.take_while { |line| !line.start_with?("rule ") } }
                               .map { |lines| lines.grep(/\S {2,}\S/).map { |line| line[/\A.+?(?= {2,})/] } }
    @test.refute_empty names.first, place
    @test.assert_empty names.first - names.last, "#{place}\nprinted:\n#{printed.join("\n")}"
  end

  # Without what differs from call to call.
  def plain(line)
    line = line.gsub(/\bvm\b/, Socket.gethostname).sub(%r{, [\d.]+/s(, (at least|about) .*? left)?}, "") # how fast it goes
    line = line.sub(/(?<=; made )[^;]+/) { |names| names.split(", ").sort.join(", ") }
    line.gsub(RUN, "RUN").gsub(/\d{4}-\d\d-\d\d/, "DATE").gsub(/\d\d:\d\d:\d\d(\.\d+)?/, "TIME").gsub(/\+\d+\.\d{3}/, "+S")
        .gsub(/\d[\d.]* (?:ns|µs|us|ms|s|min|k?B|MB|[KMG]iB)\b/, "N").gsub(/ on \S+( with|$)/, ' on HOST\1').gsub(/ {2,}/, "  ")
        .gsub(/\b\d+\.\d\d(?= |$)/, "RATIO").sub(/  (within scatter|slower|faster|too few)$/, "  VERDICT")
        .gsub(/\b\d+ cores?\b/, "N cores").rstrip
  end
end
