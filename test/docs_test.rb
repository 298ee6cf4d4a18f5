# frozen_string_literal: true

require "minitest/autorun"
require "open3"

# What the documentation says can be checked by a machine: options, links, names of files. And what no file of the
# repository may hold: where it was written.
class DocsTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  REFERENCE = "docs/reference/command-line.md"

  # A short or long option at the start of a word.
  OPTION = /(?<![\w-])(?:--[a-z][a-z-]*|-[A-Za-z])(?![\w])/

  # Hosts of package registries and their mirrors. A lock file may name the public index of crates, and nothing else.
  REGISTRY = /\b(?:(?:index|static)\.crates\.io|rubygems\.org|pypi\.org|pythonhosted\.org|(?:deb|snapshot|security)\.debian\.org
              |registry\.npmjs\.org|proxy\.golang\.org|pkg\.dev|jfrog\.io)\b/x
  LOCK_SOURCE = %r{^source = "(?!registry\+https://github\.com/rust-lang/crates\.io-index")}

  # An absolute path below someone's home, or below a folder in which someone works.
  PERSONAL_PATH = %r[(?<!\w|\.|-|/|\}|\*|<|>)/(?:root|work|home/\w+|Users/\w+)/\w]

  def test_reference_names_only_options_that_help_knows
    assert_empty reference_options - help_options
  end

  def test_every_option_of_help_is_in_the_reference
    assert_empty help_options - reference_options
  end

  def test_commands_in_the_pages_use_only_options_that_help_knows
    unknown = pages.flat_map do |page|
      commands(page).flat_map do |command|
        (command.scan(OPTION) - help_options).map { |option| "#{page}: #{option} in: #{command}" }
      end
    end
    assert_empty unknown
  end

  def test_questions_in_the_pages_are_those_of_rakudactl_with_options_that_its_help_knows
    wrong = (pages - ["CHANGELOG.md"]).flat_map do |page|
      questions(page).filter_map do |line, question, rest|
        next "#{page}: no question #{question} in: #{line}" unless question_options.key?(question)

        unknown = rest.scan(OPTION) - question_options[question]
        "#{page}: #{unknown.join(", ")} in: #{line}" if unknown.any?
      end
    end
    assert_empty wrong
  end

  def test_every_question_and_option_of_rakudactl_is_in_the_reference
    text = read("docs/reference/rakudactl.md") + read("docs/reference/information.md")
    missing = option_columns.except("help").flat_map do |question, columns|
      [["rakudactl #{question}"], *columns].reject { |forms| forms.any? { |form| text.include?(form) } }
                                           .map { |forms| "#{question}: #{forms.join(", ")}" }
    end
    assert_empty missing
  end

  def test_links_between_pages_lead_somewhere
    broken = pages.flat_map do |page|
      links = read(page).scan(/\]\(([^)#\s]+)(?:#[^)]*)?\)/).flatten.grep_v(/\A[a-z]+:/)
      folder = File.dirname(File.join(ROOT, page))
      links.reject { |link| File.exist?(File.expand_path(link, folder)) }.map { |link| "#{page}: #{link}" }
    end
    assert_empty broken
  end

  def test_links_to_sections_lead_to_a_title
    broken = pages.flat_map do |page|
      links = read(page).scan(/\]\(([^)#\s]*)#([^)\s]+)\)/).reject { |path,| path.match?(/\A[a-z]+:/) }
      refute_empty links if page == "ARCHITECTURE.md"
      links.reject { |path, section| sections(path.empty? ? page : beside(page, path)).include?(section) }
           .map { |path, section| "#{page}: #{path}##{section}" }
    end
    assert_empty broken
  end

  # No installation puts the engine into PATH: a page whose commands have it there says how it comes there.
  def test_guide_does_not_run_the_engine_without_saying_where_it_is
    lost = (["README.md"] + pages.grep(%r{\Adocs/guide/})).select do |page|
      text = read(page)
      text.match?(/^ {4}(?:.*[ $])?rakudad /) && !text.include?('export PATH="$PATH:$HOME/.local/lib/rakuda/libexec"')
    end
    assert_empty lost
  end

  # Such a listing has all of its file but the comment at its head.
  def test_listings_of_examples_are_what_the_examples_hold
    listings = pages.flat_map { |page| read(page).scan(/^<!-- example: (\S+) -->\n```\w+\n(.*?)^```$/m) }
    refute_empty listings
    listings.each do |example, listing|
      program = read(example).lines.drop_while { |line| line.match?(%r{\A(#|//|$)}) }.join
      assert_equal program, listing, example
    end
  end

  # Rows of tables, code and what cannot be broken are as long as they are.
  def test_lines_of_pages_are_no_longer_than_120_characters
    long = pages.flat_map do |page|
      fenced = false
      numbered = read(page).lines.map.with_index(1) { |line, number| [line.chomp, number] }
      numbered.filter_map do |line, number|
        fenced = !fenced if line.start_with?("```")
        next if fenced || line.size <= 120 || line.match?(/\A(?: {4}| *\|)/) || !line.strip.match?(/.\s./)

        "#{page}:#{number}: #{line.size} characters"
      end
    end
    assert_empty long
  end

  def test_comments_of_rust_are_no_longer_than_120_characters
    long = repository_files.grep(/\.rs\z/).flat_map do |path|
      numbered = read(path).lines.map.with_index(1) { |line, number| [line.chomp, number] }
      numbered.filter_map { |line, number| "#{path}:#{number}" if line.size > 120 && line.match?(%r{\A\s*//}) }
    end
    assert_empty long
  end

  def test_files_that_the_architecture_names_are_there
    named = read("ARCHITECTURE.md").scan(%r{`((?:bin|crates|lib|test|tools|bench|docs|examples)/[\w./-]+)`}).flatten
    refute_empty named
    assert_empty(named.uniq.reject { |path| File.exist?(File.join(ROOT, path)) })
  end

  def test_no_file_names_a_registry_or_a_personal_path
    found = repository_files.flat_map do |path|
      text = read(path)
      patterns = [REGISTRY, PERSONAL_PATH, (LOCK_SOURCE if path.end_with?(".lock"))].compact
      patterns.filter_map { |pattern| text[pattern] && "#{path}: #{text[/^.*#{pattern}.*$/].to_s.strip}" }
    end
    assert_empty found
  end

  private

  def read(path) = File.binread(File.join(ROOT, path)).force_encoding(Encoding::UTF_8).scrub

  def pages = repository_files.grep(/\.md\z/)

  # The option column of `--help`; what follows two blanks is explanation.
  def beside(page, path)
    File.expand_path(path, File.join("/", File.dirname(page))).delete_prefix("/")
  end

  # What links call the titles of a page: their words in small letters, joined by hyphens.
  def sections(page)
    @sections ||= {}
    @sections[page] ||= begin
      text = page.end_with?(".md") && File.file?(File.join(ROOT, page)) ? read(page).gsub(/^```.*?^```/m, "") : ""
      names = text.scan(/^#+ (.+)$/).flatten.map do |title|
        title.gsub(/\[([^\]]*)\]\([^)]*\)/, '\1').downcase.gsub(/[^\p{L}\p{N}_\- ]/, "").tr(" ", "-")
      end
      seen = Hash.new(0)
      names.map { |name| (seen[name] += 1) == 1 ? name : "#{name}-#{seen[name] - 1}" }
    end
  end

  def help_options
    @help_options ||= begin
      output, status = Open3.capture2e(File.join(ROOT, "bin/rakuda"), "--help")
      assert status.success?, output
      options = output.lines.grep(/\A\s+-/).map { |line| line.strip.split(/\s{2,}/).first }
      options.flat_map { |column| column.gsub("--[no-]", "--no-").scan(OPTION) }.uniq
    end
  end

  # Options stand in the first column of the tables there.
  def reference_options
    rows = read(REFERENCE).lines.grep(/\A\| `-/).map { |line| line.split("|")[1] }
    rows.flat_map { |cell| cell.scan(/`([^`]+)`/).flatten }.flat_map { |code| code[OPTION] }.compact.uniq
  end

  # Lines of indented or fenced blocks, and code in running text, that start with the command.
  def commands(page)
    read(page).scan(%r{^(?:    |```\w*\n)\$? ?((?:\.\./)*(?:bin/)?rakuda [^\n#|]*)|`((?:bin/)?rakuda -[^`]*)`}).flatten.compact
  end

  # Lines of blocks, and code in running text: the whole, the question, and what follows up to the next command. What
  # `bench` is asked has a help of its own; behind ` -- ` stand options of `rakuda`.
  def questions(page)
    found = read(page).scan(/^ {4,}(?:\$ )?((?:\.\.\/)*(?:bin\/)?rakudactl [^\n]*)|`((?:bin\/)?rakudactl [^`]*)`/).flatten.compact
    found.filter_map do |line|
      question, rest = line.gsub(/\s+/, " ").match(/rakudactl (?:-C \S+ )?([a-z][\w-]*)(.*)/)&.captures
      [line, question, rest.sub(/ (?:--|\||&&|#|>) .*/, "")] if question && question != "bench"
    end
  end

  # Of each question of rakudactl the options, those that mean the same together.
  def option_columns
    @option_columns ||= begin
      names = help_of_rakudactl[/^Commands:\n(.*?)\n\nOptions:/m, 1].scan(/^  ([a-z][\w-]*)/).flatten
      names.to_h do |name|
        lines = help_of_rakudactl(name).lines.grep(/\A\s+-/)
        [name, lines.map { |line| line.strip.split(/\s{2,}/).first.scan(OPTION) } - [%w[-h --help], %w[-C --directory]]]
      end
    end
  end

  def question_options
    @question_options ||= option_columns.transform_values { |columns| columns.flatten + %w[-h --help -C --directory] }
  end

  def help_of_rakudactl(*question)
    output, status = Open3.capture2e(File.join(ROOT, "bin/rakudactl"), "help", *question)
    assert status.success?, output
    output
  end

  def repository_files
    @repository_files ||= begin
      output, status = Open3.capture2("git", "ls-files", "-z", chdir: ROOT)
      assert status.success?, "git ls-files failed: the list of files comes from git"
      output.split("\0").select { |path| File.file?(File.join(ROOT, path)) }
    end
  end
end
