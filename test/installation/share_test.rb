# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "rake"
require "open3"
require "tmpdir"

# What lies below share/: manual pages without mistakes, and completions as the three shells give them to a user.
class ShareTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  SHARE = File.join(ROOT, "share")
  RAKEFILE = <<~RUBY
    task default: "n:built"
    namespace(:n) { task(:built) { sh "true" } }
    file("made with $(touch harm)") { }
    File.write("loaded", "x", mode: "a")
  RUBY

  def setup
    @folder = Dir.mktmpdir("rakuda-share")
    @environment = { "PATH" => "#{@folder}/bin:#{ROOT}/bin:#{ENV.fetch("PATH")}", "XDG_CACHE_HOME" => File.join(@folder, "cache"),
                     "HOME" => @folder, "RAKUDA_ENGINE" => nil, "RAKEOPT" => nil,
                     "RAKUDA_BENCH" => File.join(ROOT, "libexec/rakuda-bench"), "RUBYOPT" => nil, "LC_ALL" => "C.UTF-8" }
    # libexec/rakuda-tasks gives a Rakefile 10 s, which a busy machine may need.
    Dir.mkdir(File.join(@folder, "bin"))
    File.write(File.join(@folder, "bin/timeout"), "#!/bin/sh\nshift 3\nexec \"$@\"\n", perm: 0o755)
    Dir.mkdir(@work = File.join(@folder, "work"))
    File.write(File.join(@work, "Rakefile"), RAKEFILE)
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  def test_files_are_as_tools_share_writes_them
    run_well(File.join(ROOT, "tools/share"), @folder)
    made = Dir.glob("{man,bash-completion,zsh,fish}/**/*", base: @folder).select { |path| File.file?(File.join(@folder, path)) }
    assert_operator made.size, :>=, 7
    kept = made.to_h { |path| [path, File.join(SHARE, path)] }
    with_rake = File.read(File.join(SHARE, "fish/vendor_completions.d/rakuda.fish"))[/with rake ([\d.]+\d)/, 1]
    unless with_rake == Rake::VERSION
      warn "the completions were made with rake #{with_rake}, which is not here: only the manual pages are compared"
      made = made.grep(%r{\Aman/})
    end
    stale = made.reject { |path| File.exist?(kept[path]) && File.read(File.join(@folder, path)) == File.read(kept[path]) }
    assert_empty stale, "run tools/share, and commit what it writes"
  end

  # What is only a link to another page of docs, such as ([clusters](../guide/clusters.md)), says nothing here.
  def test_manual_pages_have_no_leftovers_of_links
    sources = { "command-line" => "rakuda.1", "hosts" => "rakuda-hosts.5", "properties" => "rakuda-properties.7" }
    asides = sources.flat_map do |source, name|
      text = run_well("groff", "-man", "-Tascii", "-P-cbou", "-rLL=1000n", Dir[File.join(SHARE, "man/man*/#{name}")].first)
      assert_empty text.scan(/[^.]*\bMore\.?$/), name
      lines = File.read(File.join(ROOT, "docs/reference/#{source}.md"))
      lines.scan(/\(\[([^\]]+)\]\([^)]*\)\)/).flatten.each { |aside| refute_includes text, "(#{aside.delete("`")})", name }
    end
    assert_operator asides.size, :>, 5, "the pages have no such links"
  end

  def test_the_manual_page_of_host_files_lists_the_keys_of_providers
    text = run_well("groff", "-man", "-Tascii", "-P-cbou", File.join(SHARE, "man/man5/rakuda-hosts.5"))
    entry = File.read(File.join(ROOT, "crates/agent/src/providers.rs"))[/pub struct ProviderEntry \{(.*?)^\}/m, 1]
    keys = entry.scan(/^    (\w+): /).flatten
    assert_includes keys, "command"
    keys.each { |key| assert_match(/^ +#{key}\b/, text) }
  end

  def test_manual_pages_have_no_mistakes
    pages = Dir[File.join(SHARE, "man/man*/*")]
    assert_equal %w[rakuda-hosts.5 rakuda-properties.7 rakuda.1 rakudactl.1], pages.map { |page| File.basename(page) }.sort
    pages.each do |page|
      assert_equal "", run_well("groff", "-man", "-t", "-ww", "-z", "-Tutf8", page), page
      run_well("mandoc", "-T", "lint", "-W", "warning", page)
      text = run_well("groff", "-man", "-Tascii", "-P-cbou", page)
      assert_includes text, "\nNAME\n", page
      refute_match(/\\f[BIRP]|\]\(/, text, page)
      assert_match(/\A[A-Z-]+\(\d\) +(?:General Commands|File Formats|Miscellaneous Information) Manual +[A-Z-]+\(\d\)$/, text)
    end
    text = run_well("groff", "-man", "-Tascii", "-P-cbou", File.join(SHARE, "man/man1/rakudactl.1"))
    refute_includes text, "`"
    assert_includes text.split.join(" "), "SYNOPSIS rakudactl [-C|--directory DIR] [-h|--help] [-V|--version] QUESTION"
  end

  # The same text has the date that it had; other text has a new one.
  def test_date_of_a_manual_page_is_that_of_its_last_change
    print = ["ruby", "-I", File.join(ROOT, "tools/lib"), "-I", File.join(ROOT, "lib"), "-r", "manuals", "-e"]
    of = ->(folder) { run_well("env", "SOURCE_DATE_EPOCH=86400", *print, "print Manuals.new(#{folder.dump}).hosts") }
    kept = File.read(File.join(SHARE, "man/man5/rakuda-hosts.5"))
    assert_equal kept, of.(File.join(SHARE, "man"))
    FileUtils.mkdir_p(File.join(@folder, "man/man5"))
    File.write(File.join(@folder, "man/man5/rakuda-hosts.5"), kept.sub("SEE ALSO", "SEE"))
    assert_equal kept.sub(/^(\.TH \S+ 5) "[^"]*"/, '\1 "1970-01-02"'), of.(File.join(@folder, "man"))
  end

  def test_page_of_rakudactl_has_every_question
    page = File.read(File.join(SHARE, "man/man1/rakudactl.1"))
    help = run_well("rakudactl", "--help")
    questions = help[/^Commands:\n(.*?)\n\nOptions:/m, 1].scan(/^  ([\w-]+) /).flatten - ["help"]
    assert_equal questions.sort, page.scan(/^\.SS (\S+)$/).flatten.map { |name| name.delete("\\\\") }.sort
  end

  def test_names_of_tasks_are_kept_until_the_rakefile_changes
    3.times { assert_equal ["default", "made with $(touch harm)", "n:built"], tasks.lines(chomp: true).sort }
    assert_equal 1, times_loaded
    File.write(File.join(@work, "Rakefile"), "task(:new)\n", mode: "a")
    2.times { assert_includes tasks, "\nnew\n" }
    assert_equal 2, times_loaded
    FileUtils.mkdir(File.join(@work, "rakelib"))
    File.write(File.join(@work, "rakelib/more.rake"), "task(:more)")
    2.times { assert_includes tasks, "\nmore\n" }
    assert_equal 3, times_loaded
  end

  def test_names_are_those_of_the_rakefile_that_the_command_line_means
    FileUtils.mkdir_p(File.join(@work, "below/deep"))
    File.write(File.join(@work, "below/other.rake"), "task(:other)")
    assert_includes tasks(chdir: "#{@work}/below/deep"), "n:built\n", "of the folder above"
    assert_equal "other\n", tasks("-C", "below", "-f", "other.rake")
    assert_equal "other\n", tasks("--directory=below", "--rakefile=other.rake")
    assert_equal "", tasks("-f", "missing.rake")
    File.write(File.join(@work, "bad.rake"), "raise 'bad'")
    assert_equal "", tasks("-f", "bad.rake")
  end

  def test_bash_completes
    assert_equal %w[--policy], bash("rakuda --poli")
    assert_equal %w[lifo lifo_hrf lifo_hlfet], bash("rakuda --policy li")
    assert_equal %w[plain], bash("rakuda --progress=pl")
    assert_equal %w[content,command content,inputs content,env], bash("rakuda --rerun-on content,")
    assert_equal %w[content,env,inputs], bash("rakuda --rerun-on=content,env,i")
    assert_equal %w[built], bash("rakuda n:bu"), "bash replaces what stands after the colon"
    assert_equal ['made\ with\ \$\(touch\ harm\)'], bash("rakuda mad")
    refute_path_exists File.join(@work, "harm")
    assert_equal %w[Rakefile], bash("rakuda -f Rak")
    run_rakuda
    assert_equal %w[status story], bash("rakudactl st").sort
    assert_equal %w[last], bash("rakudactl story n:built --run la")
    assert_equal %w[last], bash("rakudactl story n:built --run=la")
    assert_equal %w[built], bash("rakudactl story n:bu")
    assert_equal %w[wfformat], bash("rakudactl export wf")
    assert_equal %w[preload], bash("rakudactl sync --gate pre")
    assert_equal %w[last], bash("rakudactl log n:built --attempt l")
    assert_equal %w[layers last], bash("rakudactl sim la")
    assert_equal %w[fifo,rank_hrf], bash("rakudactl sim last --policy fifo,ra")
    assert_equal %w[env,command env,content], bash("rakudactl why n:built --rerun-on env,co")
    assert_equal %w[prepare predict], bash("rakudactl bench pre")
    assert_equal %w[montage montage-io], bash("rakudactl -C . bench compare mon")
    assert_equal %w[small], bash("rakudactl bench run montage --size=sm")
    assert_equal %w[make,xargs], bash("rakudactl bench compare montage --engines make,xa")
    assert_equal %w[--per-node], bash("rakudactl bench suite ci --per")
  end

  def test_bash_completes_files
    run_rakuda
    FileUtils.mkdir_p(File.join(@work, "results/deep"))
    FileUtils.touch(["results/one.html", "results/two words.json"].map { |name| File.join(@work, name) })
    assert_equal %w[results/], bash("rakudactl report -o res")
    assert_equal ["results/deep/", "results/one.html", 'results/two\ words.json'], bash("rakudactl export dot -o results/").sort
    assert_equal %w[results/deep/], bash("rakudactl report --csv results/"), "a folder is wanted"
    assert_equal ['results/two\ words.json'], bash("rakudactl sim results/t")
    assert_equal %w[results/one.html], bash("rakudactl why n:built -f results/o")
    assert_equal %w[results/], bash("rakudactl -C re")
    assert_equal ["results/deep/", 'results/two\ words.json'], bash("rakudactl bench report results/").sort, "no page"
  end

  def test_fish_completes
    assert_equal %w[--policy], fish("rakuda --poli")
    assert_equal %w[lifo lifo_hlfet lifo_hrf], fish("rakuda --policy li")
    assert_equal %w[n:built], fish("rakuda n:bu")
    assert_equal %w[content,command content,env content,inputs], fish("rakuda --rerun-on content,")
    assert_equal %w[--rerun-on=content,inputs], fish("rakuda --rerun-on=content,i")
    run_rakuda
    assert_equal %w[status story], fish("rakudactl st")
    assert_equal %w[n:built], fish("rakudactl story n:bu")
    assert_equal %w[last], fish("rakudactl report la")
    FileUtils.mkdir_p(File.join(@work, "results/deep"))
    assert_equal %w[results/deep/], fish("rakudactl report --csv results/")
    assert_equal %w[env,command env,content], fish("rakudactl why n:built --rerun-on env,co")
    assert_equal %w[predict prepare], fish("rakudactl bench pre")
    assert_equal %w[les-io], fish("rakudactl bench run argot-io le")
    assert_equal %w[make,xargs], fish("rakudactl bench compare montage --engines make,xa")
  end

  # zsh completes for a terminal alone. A line that it could complete is as it should be when it is run, but for the
  # comma that zsh puts behind a word of a list of its own, and takes away by itself when none is typed.
  def test_zsh_completes
    run_rakuda
    FileUtils.mkdir_p(File.join(@work, "results/deep"))
    lines = { "rakuda --poli" => "rakuda --policy=", "rakuda --progress=pl" => "rakuda --progress=plain",
              "rakuda n:bu" => "rakuda n:built", "rakudactl expla" => "rakudactl explain",
              "rakudactl story n:bu" => "rakudactl story n:built",
              "rakudactl report --csv res" => "rakudactl report --csv results/",
              "rakudactl export wf" => "rakudactl export wfformat",
              "rakudactl story n:built --run=la" => "rakudactl story n:built --run=last",
              "rakuda --rerun-on content,i" => "rakuda --rerun-on content,inputs,",
              "rakuda --rerun-on=env,inputs,con" => "rakuda --rerun-on=env,inputs,content,",
              "rakudactl why n:built --rerun-on env,in" => "rakudactl why n:built --rerun-on env,inputs",
              "rakudactl bench sui" => "rakudactl bench suite", "rakudactl bench suite pa" => "rakudactl bench suite paper",
              "rakudactl bench run wf-bl" => "rakudactl bench run wf-blast",
              "rakudactl bench compare montage --engines make,xa" => "rakudactl bench compare montage --engines make,xargs" }
    assert_equal lines.values, zsh(lines.keys)
  end

  # A word that the program says nothing of has no description, which would be the word once more.
  def test_zsh_describes_words_that_have_a_description
    run_rakuda
    asked = { "rakudactl story n:" => [/\An\\:built\z/], "rakudactl st" => [/\Astatus:\S/, /\Astory:\S/] }
    asked.each do |line, offers|
      words = line.split
      script = <<~ZSH
        words=("$@") CURRENT=$#
        compset() { true }
        _describe() { print -rl -- "${(@P)2}" }
        . #{SHARE}/zsh/site-functions/_rakudactl
      ZSH
      offered = run_well("zsh", "-f", "-c", script, "zsh", *words).lines(chomp: true).sort
      assert_equal offers.size, offered.size, line
      offers.zip(offered) { |offer, given| assert_match offer, given }
    end
  end

  private

  def run_well(*words, chdir: @work)
    output, status = Open3.capture2e(@environment, *words, chdir: chdir)
    assert_predicate status, :success?, output
    output
  end

  def run_rakuda
    run_well("rakuda", "-q")
  end

  def times_loaded = File.size(File.join(@work, "loaded"))

  def tasks(*words, chdir: @work)
    run_well(File.join(ROOT, "libexec/rakuda-tasks"), "rakuda", *words, chdir: chdir)
  end

  # What bash would offer at the end of the line, as its line editor would ask.
  def bash(line)
    words = line.split(/\s+|([=:])/).reject(&:empty?)
    name = words.first
    script = <<~BASH
      . /usr/share/bash-completion/bash_completion
      . "#{SHARE}/bash-completion/completions/#{name}"
      COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
      shift
      COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
      _#{name} #{name} "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2> #{@folder}/errors
      if [[ ${#COMPREPLY[@]} -gt 0 ]]; then printf '%s\\n' "${COMPREPLY[@]}"; fi
    BASH
    offered = run_well("bash", "--norc", "-c", script, "bash", line, *words).lines(chomp: true)
    errors = File.read(File.join(@folder, "errors"))
    assert_empty errors.lines.grep_v(/compopt: not currently executing/), errors
    offered
  end

  def fish(line)
    script = "source #{SHARE}/fish/vendor_completions.d/rakuda.fish; source #{SHARE}/fish/vendor_completions.d/rakudactl.fish; " \
             "complete -C #{line.inspect}"
    run_well("fish", "--no-config", "-c", script).lines(chomp: true).map { |offer| offer.split("\t").first }
  end

  # The lines as they are after the user has typed them, TAB, and enter: zsh tells each before it runs it.
  def zsh(lines)
    File.write(File.join(@folder, ".zshrc"), <<~ZSH)
      unsetopt beep
      PROMPT='[ready]'
      fpath=(#{SHARE}/zsh/site-functions $fpath)
      autoload -Uz compinit && compinit -u -D
      accept() { print -r -- "$BUFFER" >> #{@folder}/lines; BUFFER=; zle .accept-line }
      zle -N accept-line accept
    ZSH
    script = <<~ZSH
      zmodload zsh/zpty
      zpty shell zsh -i
      for line in "$@"; do
          zpty -r shell seen '*\\[ready]*'
          zpty -w -n shell "$line"$'\\t\\r'
      done
      zpty -r shell seen '*\\[ready]*'
      zpty -d shell
    ZSH
    run_well("timeout", "-s", "KILL", "300", "zsh", "-f", "-c", script, "zsh", *lines)
    File.read(File.join(@folder, "lines")).lines.map(&:strip)
  end
end
