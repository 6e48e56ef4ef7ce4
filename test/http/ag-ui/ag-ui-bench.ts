import { createMemoryCatalog } from "../../../src/catalog/index.ts";
import type { EngineOptions } from "../../../src/sessions/index.ts";
import type { Told } from "../../dialects/ag-ui/oracle.ts";
import { type AppBench, openApp } from "../app-bench.ts";

export interface AgUiBench extends AppBench {
  /** `POST /ag-ui/scripted`, as a client without a protocol version sends it. */
  post(body: Record<string, unknown>, options?: PostOptions): Promise<Response>;
  /** The whole stream of one run. */
  run(body: Record<string, unknown>, options?: PostOptions): Promise<Told[]>;
}

export interface PostOptions {
  readonly query?: string;
  readonly headers?: Record<string, string>;
}

/** The real app with a catalog, and a plain client of this dialect. */
export async function openAgUi(engine: Partial<EngineOptions> = {}): Promise<AgUiBench> {
  const bench = await openApp({ catalog: createMemoryCatalog() }, engine);
  const post: AgUiBench["post"] = (body, { query = "", headers = {} } = {}) =>
    bench.call("POST", `/ag-ui/scripted${query}`, { json: body, headers });
  return {
    ...bench,
    post,
    async run(body, options) {
      const response = await post(body, options);
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      return toTold(await response.text());
    },
  };
}

let count = 0;

/** A request for one prompt in a thread. */
export function input(
  threadId: string,
  text: string,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  count += 1;
  return {
    threadId,
    runId: `run-${count}`,
    state: {},
    messages: [{ id: `user-${count}`, role: "user", content: text }],
    tools: [],
    context: [],
    forwardedProps: {},
    ...more,
  };
}

export function toTold(text: string): Told[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => JSON.parse(line.slice(6)) as Told);
}
