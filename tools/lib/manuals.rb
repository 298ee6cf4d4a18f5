# frozen_string_literal: true

# The manual pages: rakuda(1), rakuda-hosts(5) and rakuda-properties(7) from the pages of docs/reference that say the
# same, rakudactl(1) from the engine, which has it from its help.

require "date"
require "kramdown"
require "kramdown/converter/man"
require "open3"
require "rakuda"
require "rakuda/engine"

# Texts of the pages, in roff's man macros.
class Manuals
  DOCS = File.expand_path("../../docs/reference", __dir__)
  # Where the pages are kept.
  KEPT = File.expand_path("../../share/man", __dir__)
  PAGES = ["rakuda(1)", "rakudactl(1)", "rakuda-hosts(5)", "rakuda-properties(7)"].freeze
  # The same by the page of docs/reference that each is made of.
  NAMES = { "command-line.md" => "rakuda(1)", "rakudactl.md" => "rakudactl(1)", "hosts.md" => "rakuda-hosts(5)",
            "properties.md" => "rakuda-properties(7)" }.freeze
  # Quotes and dashes stay as they are written.
  PLAIN = { smart_quotes: %w[apos apos quot quot],
            typographic_symbols: { hellip: "...", mdash: "---", ndash: "--", laquo: "<<", raquo: ">>",
                                   laquo_space: "<< ", raquo_space: " >>" } }.freeze

  # @param kept [String] folder of the pages of which the dates are taken
  def initialize(kept = KEPT)
    @kept = kept
  end

  # @return [String]
  def rakuda
    page("rakuda", 1, "run a Rakefile's tasks in parallel", "command-line.md")
  end

  # @return [String]
  def hosts
    page("rakuda-hosts", 5, "the hosts that rakuda runs on", "hosts.md")
  end

  # @return [String]
  def properties
    page("rakuda-properties", 7, "what a task of a Rakefile needs of rakuda", "properties.md")
  end

  # @return [String]
  def rakudactl
    text, status = Open3.capture2(Rakuda::Engine.find, "manual")
    raise "the engine prints no manual page" unless status.success?

    dated("rakudactl", 1, text)
  end

  private

  # @param file [String] a page of docs/reference
  def page(name, section, purpose, file)
    tree = Kramdown::Document.new(File.read(File.join(DOCS, file)), PLAIN).root
    Links.new.settle(tree)
    root, = Page.convert(tree, PLAIN)
    others = PAGES.reject { |page| page == "#{name}(#{section})" }
    dated(name, section, <<~ROFF)
      .\\" Made by tools/share of docs/reference/#{file}; do not edit.
      .TH #{name.upcase} #{section} "" "rakuda #{Rakuda::VERSION}"
      .SH NAME
      #{name.gsub("-", "\\-")} \\- #{purpose}
      .SH #{section == 1 ? "SYNOPSIS" : "DESCRIPTION"}
      #{spaced(root).chomp}
      .SH "SEE ALSO"
      #{others.map { |page| ".BR #{page.sub("(", " (").gsub("-", "\\-")}#{"," unless page == others.last}" }.join("\n")}
    ROFF
  end

  # The date of a page is the day of its last change: that of the page that is kept, where it says the same, else today
  # (or SOURCE_DATE_EPOCH, in UTC).
  #
  # @param text [String] of a page with an empty date
  def dated(name, section, text)
    kept = File.join(@kept, "man#{section}", "#{name}.#{section}")
    date = /^(\.TH \S+ \d) "([^"]*)"/
    there = File.exist?(kept) ? File.read(kept) : ""
    return there if there.match?(date) && there.sub(date, '\1 ""') == text && there[date, 2] != ""

    epoch = ENV.fetch("SOURCE_DATE_EPOCH", nil)
    day = epoch ? Time.at(Integer(epoch)).utc.to_date : Date.today
    text.sub(date, %(\\1 "#{day}"))
  end

  # A heading is followed by no empty line of its own.
  def spaced(text) = text.delete_prefix(".sp\n").gsub(/^(\.S[HS] .*\n)\.sp\n/, '\1')

  # What becomes of links that only lead on: a reader of a manual page cannot follow them. `([clusters](clusters.md))`
  # and a sentence `[More](more.md)` are left out, unless they lead to a page that is a manual page, too: then its name
  # stands there. Links whose text belongs to a sentence keep it.
  class Links
    # @param element [Kramdown::Element] it, and all in it, is changed
    def settle(element)
      children = element.children
      children.dup.each { |child| child.type == :a ? settle_link(children, child) : settle(child) }
    end

    private

    def settle_link(siblings, link)
      at = siblings.index(link)
      before, after = [at - 1, at + 1].map { |place| text_at(siblings, place) }
      if before.match?(/\($/) && after.start_with?(")") then settle_aside(siblings, link, at)
      elsif text_of(link) == "More" && before.match?(/(?:\A|[.] )\z/) && after.empty?
        siblings.delete(link)
        siblings[at - 1].value = before.rstrip if at.positive?
      elsif manual(link) && text_of(link) == File.basename(page_of(link), ".md")
        link.children = [Kramdown::Element.new(:text, manual(link))]
      end
    end

    # One that has brackets for itself.
    def settle_aside(siblings, link, at)
      return link.children = [Kramdown::Element.new(:text, "see #{manual(link)}")] if manual(link)

      siblings[at - 1].value = text_at(siblings, at - 1).sub(/\s*\($/, "")
      siblings[at + 1].value = text_at(siblings, at + 1).delete_prefix(")")
      siblings.delete(link)
    end

    def page_of(link) = link.attr["href"][/\A[^#]*/]

    def manual(link) = NAMES[page_of(link)]

    def text_at(siblings, place)
      sibling = place.negative? ? nil : siblings[place]
      sibling&.type == :text ? sibling.value : ""
    end

    def text_of(link) = link.children.map { |child| child.value.to_s }.join
  end

  # Tables become lists with a paragraph for each row, which fit into any width: the first cell is what is listed. Where
  # there are several others, each has the name of its column before it. Links become their texts, since they lead to
  # other pages of docs.
  class Page < Kramdown::Converter::Man
    private

    def convert_root(element, opts)
      opts[:result] = +""
      inner(element, opts)
      opts[:result]
    end

    def convert_header(element, opts)
      return if element.options[:level] == 1

      name = element.options[:level] == 2 ? "SH" : "SS"
      text = element.options[:raw_text].delete("`")
      opts[:result] << macro(name, quote(escape(name == "SH" ? text.upcase : text)))
    end

    def convert_table(element, opts)
      heads, bodies = element.children.partition { |part| part.type == :thead }
      names = heads.flat_map(&:children).flat_map(&:children).map { |cell| text_of(cell, opts) }
      bodies.flat_map(&:children).each { |row| convert_row(row, names, opts) }
    end

    def convert_row(row, names, opts)
      tag, *cells = row.children.map { |cell| text_of(cell, opts) }
      names = cells.size > 1 ? names.drop(1) : []
      cells = cells.zip(names).reject { |text, _| text.empty? }
      texts = cells.map { |text, name| name.to_s.empty? ? text : "\\fI#{name}\\fR: #{text}" }
      opts[:result] << macro("TP") << tag << "\n" << texts.join("\n.br\n") << "\n"
    end

    # What tests do on the way is for no reader.
    def convert_xml_comment(_element, _opts); end

    def convert_a(element, opts)
      inner(element, opts)
    end

    # A bold word may stand in a bold one; \\fP knows one font only.
    def convert_codespan(element, opts)
      opts[:result] << "\\fB#{escape(element.value)}\\fR"
    end

    def convert_smart_quote(element, opts)
      opts[:result] << (%i[ldquo rdquo].include?(element.value) ? '"' : "\\(aq")
    end

    def escape(text, preserve = false)
      text = preserve ? text.dup : text.gsub(/\s+/, " ")
      text.gsub("\\", "\\e").gsub("-", "\\-").gsub("'", "\\\\(aq").gsub("`", "\\\\(ga").gsub(/^(?=\.)/, "\\\\&")
    end

    # @return [String] one line
    def text_of(cell, opts)
      options = opts.merge(result: +"")
      inner(cell, options)
      options[:result].strip
    end
  end
end
