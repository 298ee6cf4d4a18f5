# frozen_string_literal: true

# Translates the options of Ruby's `system` to those of a StartCommand. It does not start anything; what only a local
# process can do (an IO object, process groups, limits) is not translated, and the caller runs it locally.

module Rakuda
  # Options of one command.
  class CommandOptions
    STREAMS = { in: 0, out: 1, err: 2, 0 => 0, 1 => 1, 2 => 2 }.freeze
    MODES = /\A(?:r|w|a|r\+|w\+|a\+)b?\z/.freeze
    # Thrown when an option has no translation.
    LOCAL = :rakuda_local

    # @param options [Hash] as `system` takes them
    # @return [Hash, nil] fields of the StartCommand's options; nil when only a local process can do it
    def self.translate(options)
      catch(LOCAL) { new.translate(options) }
    end

    def initialize
      @result = {}
      @copies = {}  # stream => stream of the parent
      @files = []
      @children = []
    end

    def translate(options)
      options.each { |key, value| option(key, value) }
      # Ruby connects all copies of the parent's streams at once; in order that is only right without overlap.
      local unless (@copies.values & @copies.keys).empty?
      redirects = @copies.to_a.map { |stream, from| [stream, Protocol::Redirect.fd(from)] } + @files + @children
      @result["redirects"] = redirects unless redirects.empty?
      @result
    end

    private

    def local
      throw(LOCAL, nil)
    end

    def option(key, value)
      case key
      when :chdir then @result["directory"] = File.expand_path(path_of(value)).b
      when :unsetenv_others then @result[:alone] = true if value
      when :umask then @result["umask"] = Integer(value)
      when :close_others then nil
      when Array then redirect_together(key.map { |stream| stream_of(stream) }, value)
      else redirect(stream_of(key), value)
      end
    end

    def stream_of(key)
      key = key.to_io.fileno if key.respond_to?(:to_io)
      STREAMS.fetch(key) { local }
    end

    def path_of(value)
      value = value.to_path if value.respond_to?(:to_path)
      value.is_a?(String) ? value : local
    end

    def redirect(stream, target)
      case target
      when :close then @files << [stream, Protocol::Redirect::CLOSE]
      when String then @files << [stream, file(target, stream.zero? ? "r" : "w", 0o644)]
      when Array then redirect_to_array(stream, target)
      else
        if target.respond_to?(:to_path) && !target.respond_to?(:to_io)
          redirect(stream, target.to_path)
        else
          @copies[stream] = stream_of(target)
        end
      end
    end

    # Several streams with one target share what is opened for the first.
    def redirect_together(streams, target)
      first, *others = streams
      redirect(first, target)
      return others.each { |stream| redirect(stream, target) } if @copies.key?(first) || target == :close

      @files.concat(others.map { |stream| [stream, Protocol::Redirect.fd(first)] })
    end

    def redirect_to_array(stream, target)
      return @children << [stream, Protocol::Redirect.fd(stream_of(target[1]))] if target[0] == :child

      path, mode, permissions = target
      mode ||= "r"
      local unless mode.is_a?(String) && MODES.match?(mode)
      mode = mode.delete("b").force_encoding(Encoding::UTF_8)
      @files << [stream, file(path_of(path), mode, permissions || 0o644)]
    end

    def file(path, mode, permissions)
      path == "/dev/null" ? Protocol::Redirect::NULL : Protocol::Redirect.file(path.b, mode, permissions)
    end
  end
end
