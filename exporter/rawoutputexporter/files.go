package rawoutputexporter

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/hourly"
	"github.com/otel-rawoutput/rawoutput/internal/upkeep"
)

// files are those of one directory. All exporters of a process that write there share them: it holds one lock a file.
type files struct {
	writer    *hourly.Writer
	keeper    *upkeep.Keeper
	directory string // absolute
	settings  fileSettings
	start     sync.Once
}

// fileSettings are what exporters of one directory must agree on.
type fileSettings struct {
	writing hourly.Options
	keeping upkeep.Options
}

// filesInUse has the files of each directory that exporters write to that are not shut down.
var filesInUse inUse[string, *files]

// acquireFiles returns the files of the configured directory. They must be released. The metrics are those of the first
// exporter; where they are read they add up.
func acquireFiles(cfg *Config, t *telemetry) (*files, error) {
	settings, err := cfg.fileSettings()
	if err != nil {
		return nil, err
	}
	directory, err := filepath.Abs(cfg.Directory)
	if err != nil {
		return nil, err
	}
	f, err := filesInUse.acquire(directory, func() (*files, error) {
		f := newFiles(disk.At(directory), settings, t)
		f.directory = directory
		return f, nil
	})
	if err != nil {
		return nil, err
	}
	if f.settings != settings {
		filesInUse.release(directory)
		return nil, fmt.Errorf("directory is %q: another raw_output exporter writes there with other permissions, max_open_files, fsync, "+
			"retention or compression; it must have the same, or another directory", cfg.Directory)
	}
	return f, nil
}

func newFiles(d disk.FS, settings fileSettings, t *telemetry) *files {
	keeper := upkeep.New(d, settings.keeping, t)
	return &files{
		writer:   hourly.NewWriter(d, settings.writing, fileObserver{t, keeper}),
		keeper:   keeper,
		settings: settings,
	}
}

// fileObserver counts what happens to the files, and has the keeper make room before the writer has none.
type fileObserver struct {
	*telemetry
	keeper *upkeep.Keeper
}

var _ hourly.Observer = fileObserver{}

func (o fileObserver) Free(bytes int64) {
	o.telemetry.Free(bytes)
	o.keeper.Free(bytes)
}

func (o fileObserver) Refused(bytes int64) { o.keeper.MakeRoom(bytes) }

func (cfg *Config) fileSettings() (fileSettings, error) {
	permissions, err := cfg.permissions()
	keeping := upkeep.Options{
		MaxAge:   cfg.Retention.MaxAge,
		MaxBytes: cfg.Retention.MaxBytes,
		MinFree:  cfg.Retention.MinFreeBytes,
		Compress: cfg.Compression == compressionZstd,
	}
	return fileSettings{
		writing: hourly.Options{
			Permissions:  permissions,
			MaxOpen:      cfg.MaxOpenFiles,
			Sync:         syncPolicies[cfg.Fsync],
			Interval:     cfg.FsyncInterval,
			MinFree:      cfg.Retention.MinFreeBytes,
			Recognizable: keeping.Removes() || keeping.Compress,
		},
		keeping: keeping,
	}, err
}

var syncPolicies = map[string]hourly.SyncPolicy{
	fsyncNever: hourly.SyncNever, fsyncInterval: hourly.SyncInterval, fsyncAlways: hourly.SyncAlways,
}

// begin starts what is done in the background, once.
func (f *files) begin() {
	f.start.Do(func() {
		f.writer.Start()
		f.keeper.Start()
	})
}

// release undoes one acquireFiles. The last one closes the files.
func (f *files) release() {
	if filesInUse.release(f.directory) {
		f.keeper.Close()
		f.writer.Close()
	}
}
