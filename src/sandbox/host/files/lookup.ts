import { readlinkSync } from "node:fs";
import { posix } from "node:path";
import { fileError } from "./open-file.ts";
import { OpenFolder } from "./open-folder.ts";
import { demandTarget, isInside, outside, type Mount, type Namespace } from "./paths.ts";

/** The kernel's own limit. */
const MOST_LINKS = 40;
/** Every `..` restarts the lookup, so the number of steps is bounded. */
const MOST_STEPS = 5_000;

/** The result of a lookup: an open folder, and the name of an entry that may or may not exist. */
export interface Found {
  readonly folder: OpenFolder;
  /** Undefined where the path is a mount itself. */
  readonly name: string | undefined;
  /** The path inside the sandbox, without links, `.` and `..`. */
  readonly path: string;
  /** The path on the host. */
  readonly host: string;
  /** Whether the last name of the path was a link. */
  readonly isLinked: boolean;
}

/** A lookup that has led to an entry of a folder, not to a mount. */
export type InFolder = Found & { readonly name: string };

export interface LookupOptions {
  /** The path as the caller gave it, for refusals. */
  readonly given: string;
  /** Whether the last name of the path is followed if it is a link. */
  readonly follow?: boolean;
  /** Whether missing folders of the path are made. */
  readonly make?: boolean;
}

/** Looks up an entry and works on it in its open folder. */
export async function withEntry<T>(
  namespace: Namespace,
  path: string,
  options: LookupOptions,
  work: (found: Found) => Promise<T>,
): Promise<T> {
  return withLookup(new Lookup(namespace, path, options), (lookup) => work(lookup.entry()));
}

/** Looks up a folder and works in it; the last name may be a link. */
export async function withFolder<T>(
  namespace: Namespace,
  path: string,
  options: Omit<LookupOptions, "follow">,
  work: (folder: OpenFolder, found: { readonly path: string; readonly host: string }) => Promise<T>,
): Promise<T> {
  return withLookup(new Lookup(namespace, path, options), (lookup) => {
    const { folder, ...found } = lookup.folder();
    return work(folder, found);
  });
}

async function withLookup<T>(lookup: Lookup, work: (lookup: Lookup) => Promise<T>): Promise<T> {
  try {
    return await work(lookup);
  } finally {
    lookup.close();
  }
}

/**
 * Resolves one path as the kernel does for a program inside the sandbox: name by name, each in the open folder before
 * it. Links are followed here, not by the kernel. So no name is looked up twice, and none outside of the mounts.
 */
class Lookup {
  readonly #namespace: Namespace;
  readonly #options: LookupOptions;
  #pending: string[];
  /** The names so far, links resolved. */
  #names: string[] = [];
  #mount: Mount | undefined;
  #folder: OpenFolder | undefined;
  #host = "";
  #links = 0;
  #steps = 0;
  #make: boolean;
  #isLinked = false;

  constructor(namespace: Namespace, path: string, options: LookupOptions) {
    this.#namespace = namespace;
    this.#options = options;
    this.#make = options.make ?? false;
    this.#pending = split(path);
  }

  entry(): Found {
    for (;;) {
      const name = this.#take();
      if (name === undefined) return { ...this.#here(), name: undefined, isLinked: this.#isLinked };
      if (this.#enter(name)) continue;
      const folder = this.#open();
      if (this.#pending.length > 0) this.#step(name);
      else if (!this.#options.follow || !this.#followLast(name)) {
        const path = posix.join(this.#path, name);
        return { folder, name, path, host: posix.join(this.#host, name), isLinked: this.#isLinked };
      }
    }
  }

  folder(): Omit<Found, "name" | "isLinked"> {
    for (;;) {
      const name = this.#take();
      if (name === undefined) return this.#here();
      if (!this.#enter(name)) this.#step(name);
    }
  }

  close(): void {
    this.#folder?.close();
    this.#folder = undefined;
  }

  #here(): Omit<Found, "name" | "isLinked"> {
    return { folder: this.#open(), path: this.#path, host: this.#host };
  }

  get #path(): string {
    return `/${this.#names.join("/")}`;
  }

  /** The next name; undefined at the end of the path. */
  #take(): string | undefined {
    this.#steps += 1;
    if (this.#steps > MOST_STEPS) throw fileError("ELOOP");
    const name = this.#pending.shift();
    if (name !== "..") return name;
    this.#restart([...this.#names.slice(0, -1), ...this.#pending]);
    return this.#take();
  }

  /** Enters a mount, a link of the namespace, or a folder above a mount. False for an entry of a mount's tree. */
  #enter(name: string): boolean {
    const path = posix.join(this.#path, name);
    const { mounts, links } = this.#namespace;
    const mount = mounts.find(({ at }) => at === path);
    if (mount !== undefined) {
      this.close();
      this.#mount = mount;
      this.#host = mount.host;
      this.#names.push(name);
      return true;
    }
    const target = links.get(path);
    if (target !== undefined) {
      this.#restart([...split(target), ...this.#pending]);
      return true;
    }
    if (this.#mount !== undefined && !this.#isHidden(posix.join(this.#host, name))) return false;
    const known = [...mounts.map(({ at }) => at), ...links.keys()];
    if (!known.some((place) => isInside(place, path))) return this.#respell(path);
    this.close();
    this.#mount = undefined;
    this.#names.push(name);
    return true;
  }

  /** Continues with another spelling of a path that a link led to. Without another spelling the path is refused. */
  #respell(path: string): true {
    const other =
      this.#links === 0 ? undefined : this.#namespace.respell?.(posix.join(path, ...this.#pending));
    if (other === undefined) throw outside(this.#options.given);
    this.#countLink();
    this.#restart(split(other));
    return true;
  }

  /** Enters a folder of the current one, or follows a link. */
  #step(name: string): void {
    const parent = this.#open();
    let next: OpenFolder;
    try {
      next = this.#make ? this.#openOrMake(parent, name) : parent.open(name);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // ENOTDIR is also the kernel's answer for a link that it may not follow.
      if (code !== "ENOTDIR" && code !== "ELOOP") throw this.#toRefusal(error);
      const target = readLink(parent.at(name));
      if (target === undefined) throw fileError("ENOTDIR");
      return this.#follow(target);
    }
    parent.close();
    this.#folder = next;
    this.#names.push(name);
    this.#host = posix.join(this.#host, name);
  }

  #openOrMake(parent: OpenFolder, name: string): OpenFolder {
    const { owner } = this.#namespace;
    let folder: OpenFolder;
    try {
      folder = parent.open(name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      return parent.make(name, { owner });
    }
    // A killed server may have left a new folder before it gave it to the owner. `give` changes only such a folder.
    if (this.#mount?.own === true) folder.give(owner);
    return folder;
  }

  /** Follows the last name if it is a link; false if it is none. The folders of its target are not made. */
  #followLast(name: string): boolean {
    const target = readLink(this.#open().at(name));
    if (target === undefined) return false;
    this.#isLinked = true;
    this.#make = false;
    this.#follow(target);
    return true;
  }

  #follow(target: string): void {
    this.#countLink();
    if (this.#pending.length > 0) demandTarget(this.#namespace, posix.resolve(this.#path, target));
    const names = split(target);
    if (target.startsWith("/")) this.#restart([...names, ...this.#pending]);
    else this.#pending = [...names, ...this.#pending];
  }

  #countLink(): void {
    this.#links += 1;
    if (this.#links > MOST_LINKS) throw fileError("ELOOP");
  }

  #restart(pending: string[]): void {
    this.close();
    this.#mount = undefined;
    this.#host = "";
    this.#names = [];
    this.#pending = pending;
  }

  #open(): OpenFolder {
    if (this.#mount === undefined) throw outside(this.#options.given);
    this.#folder ??= OpenFolder.openReal(this.#mount.host);
    return this.#folder;
  }

  #isHidden(host: string): boolean {
    const least = this.#mount?.host.length ?? 0;
    return this.#namespace.hidden.some((hidden) => hidden.length > least && isInside(host, hidden));
  }

  /** A dangling link is refused: an agent could make its target lead anywhere before it is used. */
  #toRefusal(error: unknown): unknown {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    return this.#isLinked && isMissing ? outside(this.#options.given) : error;
  }
}

function split(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** The target of a link; undefined for anything else. */
function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EINVAL" || code === "ENOENT") return undefined;
    throw error;
  }
}
