/** The user that a sandbox's files belong to, where it is not the one that the server runs as. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Whose the files of a sandbox are, as numbers of this host. */
export function ownerUid(owner: Owner | undefined): number | undefined {
  return owner?.uid ?? process.geteuid?.();
}
