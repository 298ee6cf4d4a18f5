# frozen_string_literal: true

require "digest"
require "etc"
require "fileutils"
require "rakuda/bench/catalogue"
require "rakuda/bench/instance"
require "rakuda/bench/launch"
require "rakuda/bench/programs"
require "rakuda/bench/workspace"

module Rakuda
  module Bench
    # Where workflows come from, and their inputs: the simulator's (`rakudactl sim --save`), a Rakefile that rakuda runs once
    # and exports (`rakudactl export wfformat`), the generator of WfCommons, or a file in WfFormat.
    class Workflows
      # What the run that was checked must have made, by name of the task.
      GOALS = { "homology.rake" => "best", "montage.rake" => "mosaic" }.freeze

      # @param name [String] of a benchmark, or a file
      # @param options [Options]
      def initialize(name, options)
        @name = name
        @options = options
        @entry = name.end_with?(".json") ? nil : Catalogue.find(name)
        @entry&.needs&.each { |program| Programs.need(program) }
        @entry&.modules&.each { |module_name| Programs.need_module(module_name) }
        return if @entry.nil? || @entry.workflow?

        raise UsageError, "#{name} is no workflow: it cannot be compared between engines"
      end

      # Of what a run made that was looked at closer than by its digest; known when the inputs are there.
      # @return [String, nil]
      attr_reader :digest

      # What the run that was recorded says of tasks, files and times, in WfFormat; known as the digest is.
      # @return [String, nil]
      attr_reader :record

      # @return [Array<String>] programs of others that tasks use
      def programs = @entry&.needs || []

      # @return [String] what the results call it
      def benchmark = @entry ? @name : File.basename(@name, ".json")

      # Behind the inputs, when all are there.
      DONE = ".inputs"

      # @return [Boolean] whether only a run tells its tasks
      def recorded? = @entry&.recorded? ? true : false

      # @return [Boolean] whether it is of no size of the catalogue
      def own? = @entry.nil? || @options.given?(:scale_bytes) || @options.given?(:scale_time)

      # @param workspace [String]
      # @return [String] the folder of the inputs, which `prepare` makes for comparisons to come
      def folder(workspace)
        return File.join(workspace, "inputs-#{@name}-#{@options[:size]}") unless own?

        said = [@entry ? @name : File.file?(@name) && File.read(@name), @options[:size], @options[:scale_bytes],
                @options[:scale_time]].join("\0")
        File.join(workspace, "inputs-#{benchmark}-#{Digest::SHA256.hexdigest(said)[0, 12]}")
      end

      # @return [Boolean] whether an earlier command has made and kept the inputs
      def there?(folder) = File.file?(File.join(folder, DONE))

      # Makes the inputs in a folder, and the instance. Inputs that are there from before are checked by the tasks that read
      # them.
      # @return [Instance]
      def prepare(folder)
        FileUtils.rm_rf(folder) unless there?(folder) || @instances&.key?(folder)
        FileUtils.mkdir_p(folder)
        instance = @entry&.recorded? ? recorded(folder) : written(folder)
        File.write(File.join(folder, DONE), "")
        instance
      end

      # @return [Instance] with its inputs, which are made unless they are there
      def written(folder)
        instance = load(folder)
        inputs = instance.inputs.reject do |file|
          there?(folder) && File.size?(File.join(folder, file)).to_i == instance.files.fetch(file)
        end
        words = inputs.flat_map { |file| ["--write", "#{file}:#{instance.files.fetch(file)}"] }
        inputs.each { |file| FileUtils.mkdir_p(File.join(folder, File.dirname(file))) }
        words.each_slice(200) { |some| run([Programs.own("io-task"), *some], folder) }
        instance
      end
      private :written

      # @return [Integer] bytes of inputs alone; of a workflow that only a run tells, of all
      def inputs_space(folder)
        return space(folder) if @entry&.recorded?

        FileUtils.mkdir_p(folder)
        load(folder).input_bytes
      end

      # @return [Integer] bytes of inputs and of what one engine makes; of a workflow that only a run tells, about
      def space(folder)
        return @entry.name == "montage" ? mosaic_bytes : homology_bytes if @entry&.recorded?

        FileUtils.mkdir_p(folder)
        instance = load(folder)
        instance.input_bytes + instance.bytes_written
      end

      # The instance alone; of a search that needs a run it is not known before.
      # @return [Instance]
      def load(folder)
        (@instances ||= {})[folder] ||= @entry&.recorded? ? recorded(folder) : loaded(folder)
      end

      # What is checked besides the digests of files: the whole output, against what it must be.
      # @return [Array<String>, nil] a command for the folder of a run
      def check
        return unless @entry&.name&.start_with?("homology")

        values = homology_settings
        outputs = Array.new(values.fetch("REDUCERS")) { |i| "best.#{i}" }
        sizes = values.values_at("READS", "SUBJECTS").map(&:to_s)
        return [Programs.own("homology-task"), "recall", *sizes, values["PERCENT"].to_s, "99", *outputs] if values["PERCENT"]

        chunk = (values.fetch("SUBJECTS").to_f / values.fetch("DATABASE_CHUNKS")).ceil
        [Programs.own("homology-task"), "check", *sizes, chunk.to_s, values.fetch("REDUCERS").to_s, *outputs]
      end

      private

      def loaded(folder)
        settings = @entry ? Catalogue.settings(@entry, @options[:size]) : {}
        path = @entry ? described(folder, settings) : File.expand_path(@name)
        raise UsageError, "no file #{@name}" unless File.file?(path)

        bytes = settings.key?(:reading) ? settings[:reading].to_f / Instance.load(path).bytes_read : settings.fetch(:bytes, 1.0)
        Instance.load(path, scale_bytes: bytes * @options[:scale_bytes],
                            scale_time: @options.given?(:scale_time) ? @options[:scale_time] : settings.fetch(:time, 0.0))
      end

      # @return [String] the instance's file
      def described(folder, settings)
        path = File.join(folder, "workflow.json")
        return drawn(path, settings) if settings.key?(:recipe)

        run([Programs.rakudactl, "sim", *settings.fetch(:simulated), "--save", path], folder)
        path
      end

      # @return [String] the file
      def drawn(path, settings)
        script = File.join(__dir__, "shapes.py")
        command = [Programs.find("python3"), script, settings.fetch(:recipe), settings.fetch(:tasks).to_s, path]
        run(command, File.dirname(path), { "PYTHONHASHSEED" => "0" })
        path
      end

      def homology_settings
        settings = Catalogue.settings(@entry, @options[:size])
        { "READS" => settings.fetch(:reads), "READ_CHUNKS" => settings.fetch(:read_chunks),
          "SUBJECTS" => settings.fetch(:subjects),
          "DATABASE_CHUNKS" => settings.fetch(:database_chunks), "REDUCERS" => settings.fetch(:reducers),
          "PERCENT" => settings[:percent] }.compact
      end

      # Pixels of 8 bytes: a tile, then with its area projected, corrected, in the mosaic and in differences; and headers.
      def mosaic_bytes
        tiles, pixels = Catalogue.settings(@entry, @options[:size]).values_at(:tiles, :pixels)
        (tiles**2) * ((pixels**2 * 8 * 9) + 100_000)
      end

      # Rows of 75 bytes: as I/O alone seven of a read and chunk of the database, and the best ten; of an aligner about one of a
      # read that comes from a subject, twice.
      def homology_bytes
        values = homology_settings
        reads, subjects = values.values_at("READS", "SUBJECTS")
        inputs = (reads * 113) + (subjects * 313)
        return inputs + (subjects * 313) + (reads * 75 * 2) if values["PERCENT"]

        inputs + (reads * 75 * ((7 * values.fetch("DATABASE_CHUNKS")) + 10))
      end

      # Runs a Rakefile of ours once, has it checked, and takes the tasks from the record; their outputs are kept as a digest.
      def recorded(folder)
        name = @entry.name == "montage" ? "montage.rake" : "homology.rake"
        rakuda = [Programs.rakuda, "-q", "-f", File.join(__dir__, name)]
        run([*rakuda, "inputs"], folder, environment)
        run([*rakuda, GOALS.fetch(name)], folder, environment)
        path = File.join(folder, "workflow.json")
        run([Programs.rakudactl, "export", "wfformat", "-o", path], folder)
        check ? run(check, folder) : run([*rakuda, "check"], folder, environment)
        instance = Instance.load(path)
        @record = File.read(path)
        @digest = Workspace.digest(folder, instance.outputs, @options[:timeout])
        instance.outputs.each { |file| FileUtils.rm_f(File.join(folder, file)) }
        instance
      end

      def environment
        return homology_settings.transform_values(&:to_s).merge("HOMOLOGY" => Programs.own("homology-task")) unless
          @entry.name == "montage"

        settings = Catalogue.settings(@entry, @options[:size])
        { "N" => settings.fetch(:tiles).to_s, "PIXELS" => settings.fetch(:pixels).to_s, "TIMED" => Programs.own("timed") }
      end

      def run(command, folder, environment = {})
        output, status = Launch.capture(environment, *command, timeout: @options[:timeout], chdir: folder)
        raise Failure, "#{File.basename(command.first)} failed: #{Launch.reason(output)}" unless status.success?
      end
    end
  end
end
