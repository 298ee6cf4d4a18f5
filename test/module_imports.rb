# frozen_string_literal: true

require "tsort"
require_relative "rust_sources"

# Which files of a crate take names from which others, by its `use` lines and by paths that begin with `crate`. Methods
# are not seen: a file that only calls them on what it was handed imports nothing.
class ModuleImports
  # @param sources [String] the folder `src` of the crate
  def initialize(sources)
    @texts = RustSources.read(sources).transform_keys do |path|
      name = path.delete_suffix(".rs").delete_suffix("/mod").gsub("/", "::")
      %w[lib main].include?(name) ? "" : name
    end
  end

  # @return [Array<Array<String>>] modules that import one another in a circle, the largest circle first
  def circles
    each_node = ->(&block) { @texts.each_key(&block) }
    each_child = ->(name, &block) { imports_of(name).each(&block) }
    TSort.strongly_connected_components(each_node, each_child).select { |part| part.size > 1 }.sort_by { |part| -part.size }
  end

  # @return [Hash{String => Array<String>}] by folder or file of `src`: those that it imports
  def parts
    part = ->(name) { name.split("::").first }
    edges = @texts.keys.flat_map { |name| imports_of(name).map { |other| [part[name], part[other]] } }
    edges = edges.uniq.reject { |one, other| one.nil? || other.nil? || one == other }
    edges.group_by(&:first).transform_values { |each| each.map(&:last).sort }
  end

  private

  def imports_of(name)
    uses = @texts.fetch(name).scan(/\buse\s+([^;]+);/).flatten.flat_map { |tree| paths_of(tree.gsub(/\s+/, "")) }
    paths = uses + @texts.fetch(name).scan(/\b(?:crate|super)(?:::\w+)+/)
    paths.filter_map { |path| module_of(absolute(path, name)) }.uniq - [name]
  end

  # @param tree [String] as `a::{b, c::d}`
  def paths_of(tree)
    head, list = tree.match(/\A([\w:]*)\{(.*)\}\z/)&.captures
    return [tree] unless list

    depth = 0
    parts = list.each_char.slice_when do |char, _|
      depth += { "{" => 1, "}" => -1 }.fetch(char, 0)
      char == "," && depth.zero?
    end
    parts.map { |part| part.join.delete_suffix(",") }.flat_map { |part| paths_of(head + part) }
  end

  def absolute(path, name)
    parts = path.split("::")
    base = name.split("::")
    case parts.first
    when "crate" then parts.drop(1)
    when "self" then base + parts.drop(1)
    when "super"
      ups = parts.take_while { |part| part == "super" }.size
      base[0...-ups] + parts.drop(ups)
    else base + parts
    end
  end

  # The file that a path leads into; nothing: it is another crate's.
  def module_of(parts)
    parts.size.downto(1).map { |count| parts.take(count).join("::") }.find { |name| @texts.key?(name) }
  end
end
