# frozen_string_literal: true

# A file that says what an environment is made of (a requirements.txt of pip, an environment.yml of conda), and the
# files that it names with `-r` and `-c`, which say the rest. It reads them as far as to find those names; what the
# lines ask for is the business of pip and conda.

module Rakuda
  # The files, the first one first.
  class RequirementFiles
    # A name as the shell would have it, as pip reads a line so; what ends a list of YAML is no part of it.
    NAME = /"([^"\n]+)"|'([^'\n]+)'|([^\s"']+?)(?=[\],]*(?:\s|["']|\z))/.freeze
    OPTION = /(?:\A|[\s"'])(?:-[rc]\s*|--(?:requirement|constraint)(?:=|\s)\s*)#{NAME}/.freeze
    # Lines of options, in a list of YAML, too.
    OPTIONS = /(?:^[ \t]*(?:-[ \t]+)?|[\[,][ \t]*)["']?(-[^#\n]*)/.freeze
    # What is looked for in the folder of the run depends on that folder.
    LOCAL = %r{^[ \t]*(?:-[ \t]+)?["']?(?:(?:-e|--editable|-f|--find-links)\b|\.{0,2}/|\.{1,2}(?:[\[\s]|$)|file:|
               [^\s"'\#:]+\.(?:whl|zip|tar\.\w+)\b|.*@\s*file:)}x.freeze

    # @param name [String] of the first file
    # @param folder [String] where a relative name starts
    # @raise [SystemCallError] when the first one cannot be read
    def initialize(name, folder)
      @folder = folder
      @texts = {}
      @unread = []
      @places = {}
      read(name)
    end

    # @return [Hash{String => String}] the content of each, by its name from the folder
    attr_reader :texts

    # @return [Array<String>] names of those that cannot be read: the tool says why, when it wants them
    attr_reader :unread

    # @return [Boolean] whether what they ask for is found by the folder, too
    def local?
      !@unread.empty? || @texts.each_value.any? { |text| text.match?(LOCAL) }
    end

    private

    # Each is read once, by whichever name.
    def read(name)
      path = File.expand_path(name, @folder)
      # First, since this may bring it here (Rakuda::NodeFiles).
      text = File.binread(path)
      place = File.realpath(path)
      return if @places.key?(place)

      @places[place] = true
      @texts[name] = text
      named_in(@texts[name]).each { |one| read_named(one, File.dirname(name)) }
    end

    # A name starts at the folder of the file that has it.
    def read_named(name, folder)
      name = File.join(folder, name) unless name.start_with?("/") || folder == "."
      read(name)
    rescue SystemCallError
      @unread |= [name]
    end

    # Addresses are left to the tool.
    def named_in(text)
      lines = text.gsub(/\\\r?\n/, " ").scan(OPTIONS).flatten
      names = lines.flat_map { |line| line.scan(OPTION).map { |found| found.compact.first } }
      names.reject { |name| name.match?(/\A\w+:/) || name.include?("\0") }
    end
  end
end
