# frozen_string_literal: true

require_relative "rust_sources"

# Where the types of a crate are at home, and which of their `impl` blocks lie elsewhere. Looks at blocks without a
# trait, and leaves out the modules of tests within files. Of several types with one name, each home counts.
class TypeHomes
  DEFINITION = /^(?:pub(?:\([^)]*\))? )?(?:struct|enum|union) (\w+)/
  IMPL = /^(?:unsafe )?impl\b([^{;]*)\{/

  # @param sources [String] the folder `src` of the crate
  def initialize(sources)
    @texts = RustSources.read(sources)
  end

  # @return [Hash{String => Array<String>}] type => where its `impl` blocks outside of its home are, a file for each
  def outside
    homes = homes_of_types
    strays = @texts.flat_map { |file, text| types_of_impls(text).map { |type| [type, file] } }
    strays.select! { |type, file| homes.key?(type) && homes[type].none? { |home| file.start_with?(home) } }
    strays.group_by(&:first).transform_values { |pairs| pairs.map(&:last) }
  end

  private

  # Type => the beginnings of the paths of files that are its home.
  def homes_of_types
    @texts.each_with_object({}) do |(file, text), homes|
      text.scan(DEFINITION) { |(type)| (homes[type] ||= []).concat(home_of(file)) }
    end
  end

  # The folder that belongs to the file, with the file, or else the folder in which it lies. The folder of all sources
  # is no type's home: who is defined there stays in its file.
  def home_of(file)
    return [file.delete_suffix("mod.rs")] if file.end_with?("/mod.rs")

    folder = "#{file.delete_suffix(".rs")}/"
    return [file, folder] if @texts.each_key.any? { |other| other.start_with?(folder) }

    file.include?("/") ? ["#{File.dirname(file)}/"] : [file]
  end

  def types_of_impls(text)
    text.scan(IMPL).flatten.filter_map do |header|
      header = without_generics(header).split(/\bwhere\b/).first
      header[/\A\s*(?:\w+::)*(\w+)\s*\z/, 1]
    end
  end

  # Nothing between `<` and `>`, at any depth; `->` closes nothing.
  def without_generics(header)
    depth = 0
    header.gsub("->", "").each_char.select do |char|
      depth += 1 if char == "<"
      inside = depth.positive?
      depth -= 1 if char == ">"
      !inside
    end.join
  end
end
