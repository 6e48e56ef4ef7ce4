import { readlinkSync } from "node:fs";
import { posix } from "node:path";
import { isInside, outside } from "./mapping.ts";
import { demandTarget, type Namespace, type Place } from "./namespace.ts";
import { fileError } from "./open-file.ts";
import { OpenFolder } from "./open-folder.ts";

/** As the kernel has it. */
const MOST_LINKS = 40;
/** Every `..` begins anew, so that a long path of them cannot keep us busy. */
const MOST_STEPS = 5_000;

/** Where a path has led: an open folder, and an entry of it that may or may not be there. */
export interface Found {
  readonly folder: OpenFolder;
  /** Undefined where the path is a place itself. */
  readonly name: string | undefined;
  /** Without links, `.` and `..`, as a program inside would say it. */
  readonly path: string;
  /** The same on the host. */
  readonly host: string;
  /** Whether the last name of the path was a link. */
  readonly isLinked: boolean;
}

export interface LookupOptions {
  /** As the caller said it, for refusals. */
  readonly said: string;
  /** Whether a link in the last place is followed. */
  readonly follow?: boolean;
  /** Whether missing folders on the way are made. */
  readonly make?: boolean;
}

/** Looks up an entry and works on it in its open folder. */
export async function withEntry<T>(
  namespace: Namespace,
  path: string,
  options: LookupOptions,
  work: (found: Found) => Promise<T>,
): Promise<T> {
  const lookup = new Lookup(namespace, path, options);
  try {
    return await work(lookup.entry());
  } finally {
    lookup.close();
  }
}

/** Looks up a folder itself, links in the last place included. */
export async function withFolder<T>(
  namespace: Namespace,
  path: string,
  options: Omit<LookupOptions, "follow">,
  work: (folder: OpenFolder, found: { readonly path: string; readonly host: string }) => Promise<T>,
): Promise<T> {
  const lookup = new Lookup(namespace, path, options);
  try {
    const { folder, ...found } = lookup.folder();
    return await work(folder, found);
  } finally {
    lookup.close();
  }
}

/**
 * One path, resolved as the kernel would do it for a program inside: name by name, each in the open folder before it, links
 * by us. So no name is looked up twice, and none on the host outside of the places.
 */
class Lookup {
  readonly #namespace: Namespace;
  readonly #options: LookupOptions;
  #pending: string[];
  /** What was gone through so far, links resolved. */
  #names: string[] = [];
  #place: Place | undefined;
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
        const { path, host } = this.#here();
        return {
          folder,
          name,
          path: posix.join(path, name),
          host: posix.join(host, name),
          isLinked: this.#isLinked,
        };
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

  #take(): string | undefined {
    this.#steps += 1;
    if (this.#steps > MOST_STEPS) throw fileError("ELOOP");
    const name = this.#pending.shift();
    if (name !== "..") return name;
    this.#restart([...this.#names.slice(0, -1), ...this.#pending]);
    return this.#take();
  }

  /** Goes on where that needs no look at the disk: into a place, over a link that is not in one, on the way to a place. */
  #enter(name: string): boolean {
    const path = posix.join(this.#path, name);
    const { places, links } = this.#namespace;
    const place = places.find(({ at }) => at === path);
    if (place !== undefined) {
      this.close();
      this.#place = place;
      this.#host = place.host;
      this.#names.push(name);
      return true;
    }
    const target = links.get(path);
    if (target !== undefined) {
      this.#restart([...split(target), ...this.#pending]);
      return true;
    }
    if (this.#place !== undefined && !this.#isHidden(posix.join(this.#host, name))) return false;
    const ends = [...places.map(({ at }) => at), ...links.keys()];
    if (!ends.some((end) => isInside(end, path))) return this.#respell(path);
    this.close();
    this.#place = undefined;
    this.#names.push(name);
    return true;
  }

  #respell(path: string): true {
    const other =
      this.#links === 0 ? undefined : this.#namespace.respell?.(posix.join(path, ...this.#pending));
    if (other === undefined) throw outside(this.#options.said);
    this.#countLink();
    this.#restart(split(other));
    return true;
  }

  /** Goes into a folder, or over a link. */
  #step(name: string): void {
    const parent = this.#open();
    let next: OpenFolder;
    try {
      next = this.#make ? this.#openOrMake(parent, name) : parent.open(name);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The kernel says ENOTDIR of a link that it may not follow to a folder.
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
    try {
      return parent.open(name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      return parent.make(name, { owner: this.#namespace.owner });
    }
  }

  /** Whether the last name was a link. What it leads to has to lie in a folder that is there. */
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
    this.#place = undefined;
    this.#host = "";
    this.#names = [];
    this.#pending = pending;
  }

  #open(): OpenFolder {
    if (this.#place === undefined) throw outside(this.#options.said);
    this.#folder ??= OpenFolder.openReal(this.#place.host);
    return this.#folder;
  }

  #isHidden(host: string): boolean {
    const least = this.#place?.host.length ?? 0;
    return this.#namespace.hidden.some((hidden) => hidden.length > least && isInside(host, hidden));
  }

  /** A link to nothing could be made to lead anywhere by the time that it is used. */
  #toRefusal(error: unknown): unknown {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    return this.#isLinked && isMissing ? outside(this.#options.said) : error;
  }
}

function split(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** What a link says; undefined for what is none, or is not there. */
function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EINVAL" || code === "ENOENT") return undefined;
    throw error;
  }
}
