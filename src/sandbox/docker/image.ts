import { realpathSync } from "node:fs";
import { posix } from "node:path";
import type { Readable } from "node:stream";
import { SluiceError } from "../../contract/index.ts";
import type { ContainerEngine } from "./engine.ts";

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** An image on this machine. Images are never pulled: that is up to the user. */
export class Image {
  readonly id: string;
  readonly path: string;
  readonly #engine: ContainerEngine;
  /** Known images by id. The facts about an image never change. */
  static readonly #seen = new WeakMap<ContainerEngine, Map<string, Image>>();
  readonly #known = new Map<string, boolean>();

  private constructor(engine: ContainerEngine, found: { id: string; path: string }) {
    this.#engine = engine;
    this.id = found.id;
    this.path = found.path;
  }

  static async find(engine: ContainerEngine, name: string): Promise<Image> {
    const found = await engine.find((docker) => docker.getImage(name).inspect());
    if (found === undefined) {
      const reason = `The image ${name} is not on this machine`;
      const remedy = `docker pull ${name}`;
      const facts = { image: name, reason, remedy };
      throw new SluiceError("unsupported_sandbox", `${reason}. Fetch it: ${remedy}`, facts);
    }
    const seen = Image.#seen.get(engine) ?? new Map<string, Image>();
    Image.#seen.set(engine, seen);
    const known = seen.get(found.Id);
    if (known !== undefined) return known;
    const variables = (found.Config?.Env ?? []) as string[];
    const path = variables.find((variable) => variable.startsWith("PATH="))?.slice("PATH=".length);
    const image = new Image(engine, { id: found.Id, path: path || DEFAULT_PATH });
    seen.set(image.id, image);
    return image;
  }

  /** The paths among these that the image has. */
  async having(paths: readonly string[]): Promise<Set<string>> {
    const unknown = paths.filter((path) => !this.#known.has(path));
    if (unknown.length > 0) await this.#look(unknown);
    return new Set(paths.filter((path) => this.#known.get(path)));
  }

  /** The path of the image's own Node: the same as on this host, or else on the image's search path. */
  async node(): Promise<string | undefined> {
    const candidates = [hostNode(), ...this.path.split(":").map((folder) => posix.join(folder, "node"))];
    const having = await this.having(candidates);
    return candidates.find((candidate) => having.has(candidate));
  }

  /** Looks for the paths in a container that is never started. */
  async #look(paths: readonly string[]): Promise<void> {
    const container = await this.#engine.with((docker) =>
      docker.createContainer({
        Image: this.id,
        Entrypoint: ["/bin/sh"],
        Labels: { "sluice.probe": "true" },
        HostConfig: { NetworkMode: "none" },
      }),
    );
    try {
      for (const path of paths) {
        const answer = await this.#engine.find(() => container.infoArchive({ path }));
        this.#known.set(path, answer !== undefined);
        // An open connection would keep this process alive for ever.
        (answer as Partial<Readable> | undefined)?.destroy?.();
      }
    } finally {
      await this.#engine.find(() => container.remove({ force: true }) as Promise<unknown>);
    }
  }
}

export function hostNode(): string {
  return realpathSync(process.execPath);
}
