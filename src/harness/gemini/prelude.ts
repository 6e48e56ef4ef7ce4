/** The prelude, which `node --import` loads before the CLI's own code. */
export const PRELUDE = ".gemini/sluice.mjs";

/**
 * The source text of each part goes into the file, so a part uses nothing from outside of itself. No part may break the
 * CLI.
 */
export function preludeFile(): { path: string; content: string } {
  const parts = [keepSessionFile, mendMcpResults, observeModel];
  return { path: PRELUDE, content: parts.map((part) => `try { (${String(part)})(); } catch {}\n`).join("") };
}

/**
 * Protects the file of a resumed session. Part of the prelude. At its start the CLI writes to `session-<minute>-<id>`,
 * with the present minute. In the minute of the session's creation that is the session's own file, which the CLI would
 * empty. So the file gets the name of a minute in the past. Each resume also leaves a new, short file, which the next
 * resume would take for the session. Such files are removed.
 */
function keepSessionFile(): void {
  const fs = process.getBuiltinModule("node:fs");
  const resumed = process.env["SLUICE_RESUME"]?.slice(0, 8);
  const root = `${process.env["HOME"]}/.gemini/tmp`;
  if (!resumed || !fs.existsSync(root)) return;
  for (const project of fs.readdirSync(root)) {
    const chats = `${root}/${project}/chats`;
    if (!fs.existsSync(chats)) continue;
    const sizeOf = (name: string): number => fs.statSync(`${chats}/${name}`).size;
    const names = fs.readdirSync(chats).filter((name) => name.endsWith(`-${resumed}.jsonl`));
    // The longest file is the whole conversation: a resume appends to the file that it read.
    const [whole, ...stubs] = names.toSorted((a, b) => sizeOf(b) - sizeOf(a));
    for (const stub of stubs) fs.rmSync(`${chats}/${stub}`);
    if (whole?.startsWith("session-2"))
      fs.renameSync(`${chats}/${whole}`, `${chats}/session-0${whole.slice("session-2".length)}`);
  }
}

/**
 * The CLI takes JSON text of an MCP result for its structured content, and fails if that is no object, such as "42".
 * Part of the prelude.
 */
function mendMcpResults(): void {
  interface Message {
    jsonrpc?: unknown;
    result?: { content?: { text?: unknown }[]; structuredContent?: unknown } | null;
  }
  const { parse } = JSON;

  const mend = <T>(value: T): T => {
    const message = value as Message | null;
    const result = message?.jsonrpc === "2.0" ? message.result : undefined;
    const text = Array.isArray(result?.content) ? result.content[0]?.text : undefined;
    if (!result || typeof text !== "string" || result.structuredContent !== undefined) return value;
    try {
      const meant: unknown = parse(text);
      if (typeof meant === "object" && meant !== null && !Array.isArray(meant)) return value;
    } catch {
      return value;
    }
    // With structured content the CLI does not parse the text.
    result.structuredContent = {};
    return value;
  };

  JSON.parse = (text, reviver) => mend(parse(text, reviver));
  const { json } = Response.prototype;
  Response.prototype.json = async function (this: Response) {
    return mend(await json.call(this));
  };
}

/**
 * Reports data that the CLI's ACP mode leaves out: the arguments of calls, the usage of model requests, failed requests
 * and retries. All of it passes through `fetch`. Part of the prelude.
 */
function observeModel(): void {
  const fs = process.getBuiltinModule("node:fs");
  const original = globalThis.fetch;
  let count = 0;

  const say = (params: object): void => {
    try {
      fs.writeSync(1, `${JSON.stringify({ jsonrpc: "2.0", method: "_sluice/model", params })}\n`);
    } catch {
      // A failed report must not break the CLI.
    }
  };

  type Part = { functionCall?: object; functionResponse?: object; text?: string; thought?: boolean };
  type Body = {
    contents?: { parts?: Part[] }[];
    systemInstruction?: unknown;
    tools?: unknown;
    request?: Body;
  };

  const readBody = (body: unknown): Body => {
    const value = JSON.parse(String(body)) as Body;
    return value.request ?? value;
  };

  const observe = (response: Response, { id, isAgent }: { id: number; isAgent: boolean }): Response => {
    const decoder = new TextDecoder();
    let rest = "";
    let usage: object | undefined;
    const readChunk = (line: string): void => {
      try {
        const value = JSON.parse(line.replace(/^data:\s*/, ""));
        const chunk = value.response ?? value;
        if (chunk.usageMetadata) usage = chunk.usageMetadata;
        for (const part of (chunk.candidates?.[0]?.content?.parts ?? []) as Part[]) {
          const { functionCall: call, text, thought = false } = part;
          if (call) say({ event: "call", id, call });
          // The main agent's text comes by ACP. Thoughts come there only in pieces with headlines.
          if (text && (thought || isAgent)) say({ event: "words", id, text, thought });
        }
      } catch {
        // Half a line, or an unknown one.
      }
    };
    const isStream = response.headers.get("content-type")?.includes("event-stream");
    const watch = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        rest += decoder.decode(bytes, { stream: true });
        if (isStream) {
          const lines = rest.split("\n");
          rest = lines.pop() ?? "";
          for (const line of lines) if (line.startsWith("data:")) readChunk(line);
        }
        controller.enqueue(bytes);
      },
      flush() {
        if (rest.trim() !== "") readChunk(rest);
        say({ event: "response", id, usage });
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body?.pipeThrough(watch) ?? null, { status, statusText, headers });
  };

  globalThis.fetch = async (input, init) => {
    const target = input instanceof URL ? input.href : input;
    const url = typeof target === "string" ? target : target.url;
    const found = /(?:models\/([^:/?]+))?:(?:stream)?[gG]enerateContent/.exec(url);
    if (!found || typeof init?.body !== "string") return original(input, init);
    const id = ++count;
    let isAgent = false;
    try {
      const body = readBody(init.body);
      const results = (body.contents?.at(-1)?.parts ?? []).flatMap((part) => part.functionResponse ?? []);
      const isSummary = JSON.stringify(body.systemInstruction ?? "").includes("state_snapshot");
      // Only sub-agents have a tool for their end.
      isAgent = JSON.stringify(body.tools ?? "").includes('"complete_task"');
      say({ event: "request", id, model: found[1], results, isSummary });
    } catch {
      return original(input, init);
    }
    try {
      const response = await original(input, init);
      if (response.ok) return observe(response, { id, isAgent });
      say({ event: "failed", id, status: response.status });
      return response;
    } catch (error) {
      say({ event: "failed", id, message: error instanceof Error ? error.message : String(error) });
      throw error;
    }
  };
}
