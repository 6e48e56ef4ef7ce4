import type { Api } from "./api.ts";
import { print } from "./output.ts";

interface Letter {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

/** Short, since a request that hangs holds back an abort behind it. */
const PATIENCE_MS = 60_000;

/** Sends the requests of stdin in order, and prints each answer as a line. Early requests wait. */
export class Mailbox {
  #api: Api | undefined;
  #waiting: Letter[] = [];
  #last: Promise<void> = Promise.resolve();

  open(api: Api): void {
    this.#api = api;
    for (const letter of this.#waiting.splice(0)) void this.ask(letter);
  }

  put(line: string): void {
    if (line.trim() === "") return;
    const letter = parseLetter(line);
    if (letter === undefined) {
      process.stderr.write(
        `opencode-gateway: ignored a line on stdin that is no request: ${line.slice(0, 200)}\n`,
      );
      return;
    }
    void this.ask(letter);
  }

  /** Sends in order, so that an abort never overtakes its prompt. Nothing waits for a compaction. */
  ask(letter: Letter): Promise<void> {
    const api = this.#api;
    if (!api) {
      this.#waiting.push(letter);
      return Promise.resolve();
    }
    const isLong = letter.path.endsWith("/summarize") || letter.path === "/mcp";
    const sent = this.#last.then(() =>
      send(api, letter, isLong ? undefined : AbortSignal.timeout(PATIENCE_MS)),
    );
    if (!isLong) this.#last = sent;
    return sent;
  }
}

async function send(
  api: Api,
  { method, path, body }: Letter,
  signal: AbortSignal | undefined,
): Promise<void> {
  const answer = await api.send(method, path, {
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
  });
  print(JSON.stringify({ method, path, ...answer }));
}

function parseLetter(line: string): Letter | undefined {
  try {
    const { method, path, body } = JSON.parse(line) as Partial<Letter>;
    const isRequest = typeof method === "string" && typeof path === "string" && path.startsWith("/");
    return isRequest ? { method, path, ...(body === undefined ? {} : { body }) } : undefined;
  } catch {
    return undefined;
  }
}
