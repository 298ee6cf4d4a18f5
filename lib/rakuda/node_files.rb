# frozen_string_literal: true

# Files of actions where nodes share no file system: what Ruby code of an action looks for in vain is staged from the
# node of its commands, what it writes is noted for its next command, and what it renames or removes is renamed or
# removed there. It knows which methods of Ruby name files, and nothing of where these are: the hub does.

module Rakuda
  # Hooks for File, IO, Dir.mkdir and Kernel#open.
  module NodeFiles
    # Methods of File, and of IO, whose first argument names a file that they look at.
    READERS = %i[atime birthtime ctime empty? executable? ftype lstat mtime readable? readlink size size? stat
                 symlink? writable? world_readable? zero?].freeze
    CONTENT_READERS = %i[binread foreach read readlines].freeze
    # Methods of IO whose first argument names a file that they write.
    CONTENT_WRITERS = %i[binwrite write].freeze
    # File.exist? as it is without hooks.
    EXIST = File.method(:exist?)
    # Answers about what is on a node.
    FOUND = [Protocol::FileAnswer::FILE, Protocol::FileAnswer::FOLDER].freeze
    # Modes that write.
    WRITING = /[wa+]/.freeze

    class << self
      # @param session [Session]
      # @param link [Link]
      # @param reactor [Reactor]
      # @param directory [String] the run's folder
      def install(session, link, reactor, directory)
        @session = session
        @link = link
        @reactor = reactor
        @below = "#{directory}/"
        @kept = "#{directory}/.rakuda/"
        @waiting = {} # number of a question => the Fiber that waits for the answer
        @next = 0
        return if File.singleton_class.include?(Files)

        IO.singleton_class.prepend(Contents)
        File.singleton_class.prepend(Files)
        Dir.singleton_class.prepend(Folders)
        Kernel.prepend(Open)
      end

      # The action is about to look at a file: it is staged out when only the node of its commands has it, or may have
      # changed it.
      def want(name)
        return unless (path = path_of(name))

        action = @session.current_activity
        return if EXIST.call(path) && !action.shared_files&.key?(path)

        share(action, path) if ask("FetchFile", action, path) == Protocol::FileAnswer::HERE
      end

      # The action asks whether there is a file: that is answered without bringing it here.
      # @return [String, nil] Protocol::FileAnswer::FILE or FOLDER; nil: what is here counts
      def look(name)
        return unless (path = path_of(name))

        action = @session.current_activity
        return if EXIST.call(path) && !action.shared_files&.key?(path)

        found = ask("LookForFile", action, path)
        found if FOUND.include?(found)
      end

      # The action has written a file.
      def written(name)
        return unless (path = path_of(name))

        action = @session.current_activity
        share(action, path)
        @link.send_message("FileWritten", action.number, path.b)
      end

      # The action is about to rename a file, or to remove it.
      # @param target [String, nil] nil: to remove it
      # @return [Symbol, nil] :done, or :there when the same is to be done here
      def change(name, target)
        return unless (path = path_of(name))

        action = @session.current_activity
        is_here = EXIST.call(path)
        return if is_here && !action.shared_files&.key?(path)
        return if target && !(target = path_of(target))
        return unless ask("ChangeFile", action, path, target&.b) == Protocol::FileAnswer::DONE
        return :done unless is_here

        action.shared_files.delete(path)
        share(action, target) if target
        :there
      end

      # The message FileFetched has come.
      def on_fetched(request, outcome, error)
        fiber = @waiting.delete(request)
        @reactor.resume(fiber, error ? StagingFailed.new(error.dup.force_encoding(Encoding::UTF_8)) : outcome) if fiber
      end

      # The action is about to open a file.
      def opening(name, mode, options)
        mode = options[:mode] || mode
        if mode.is_a?(Integer)
          writes = !(mode & (IO::WRONLY | IO::RDWR)).zero?
          want(name) if (mode & IO::TRUNC).zero?
        else
          writes = mode.to_s.match?(WRITING)
          want(name) unless mode.to_s.start_with?("w")
        end
        written(name) if writes
      end

      private

      # What Rakuda keeps in .rakuda is here alone.
      # @return [String, nil] the whole name of a file in the run's folder, when an action of this process's loop names
      #   it
      def path_of(name)
        return unless @session&.current_activity.is_a?(Action)
        return unless name.is_a?(String) || name.respond_to?(:to_path)

        path = File.expand_path(name)
        path if path.start_with?(@below) && !path.start_with?(@kept)
      end

      # Both sides have it: a command may change what is here.
      def share(action, path)
        (action.shared_files ||= {})[path] = true
      end

      def ask(message, action, *fields)
        raise action.lost if action.lost

        request = @next
        @next += 1
        fields.map! { |field| field&.b }
        @link.send_message(message, request, action.number, *fields)
        @waiting[request] = Fiber.current
        action.keep_status { @reactor.park }
      rescue Exception # rubocop:disable Lint/RescueException -- the Fiber may serve another activity when the answer comes
        @waiting.delete(request)
        raise
      end
    end

    # In front of IO, and so of File: what has a name and a content.
    module Contents
      CONTENT_READERS.each do |name|
        define_method(name) do |*arguments, **options, &block|
          NodeFiles.want(arguments.first) unless arguments.empty?
          super(*arguments, **options, &block)
        end
      end

      CONTENT_WRITERS.each do |name|
        define_method(name) do |*arguments, **options|
          super(*arguments, **options).tap { NodeFiles.written(arguments.first) unless arguments.empty? }
        end
      end

      def copy_stream(from, target, *rest)
        NodeFiles.want(from)
        super.tap { NodeFiles.written(target) }
      end
    end

    # In front of File.
    module Files
      READERS.each do |name|
        define_method(name) do |*arguments|
          NodeFiles.want(arguments.first) unless arguments.empty?
          super(*arguments)
        end
      end

      def exist?(name)
        NodeFiles.look(name) ? true : super
      end

      def file?(name)
        found = NodeFiles.look(name)
        found ? found == Protocol::FileAnswer::FILE : super
      end

      %i[new open].each do |name|
        define_method(name) do |*arguments, **options, &block|
          NodeFiles.opening(arguments[0], arguments[1], options) unless arguments.empty?
          super(*arguments, **options, &block)
        end
      end

      def rename(from, target)
        changed = NodeFiles.change(from, target)
        return 0 if changed == :done
        return super if changed == :there

        NodeFiles.want(from)
        super.tap { NodeFiles.written(target) }
      end

      %i[delete unlink].each do |name|
        define_method(name) do |*names|
          here = names.reject { |file| NodeFiles.change(file, nil) == :done }
          super(*here)
          names.size
        end
      end
    end

    # In front of Dir.
    module Folders
      def mkdir(name, *)
        NodeFiles.written(name)
        super
      end
    end

    # In front of Kernel.
    module Open
      private

      def open(name, *arguments, **options, &block)
        NodeFiles.opening(name, arguments.first, options)
        super
      end
    end
  end
end
