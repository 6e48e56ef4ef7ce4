/** What happened to a file or symlink. `path` is relative to the watched folder, `timestamp` in milliseconds since 1970. */
export interface FileChange {
  readonly type: "create" | "change" | "delete";
  readonly path: string;
  readonly timestamp: number;
}

/** Something that makes watching slower or less complete, said once per reason. */
export interface WatchWarning {
  readonly reason: "out_of_watches" | "events_lost" | "too_many_entries" | "failed";
  readonly detail: string;
}
