/**
 * Says what the CLI's ACP mode keeps to itself: what was called with which arguments, what each model request used,
 * and that requests fail and are tried again. All of it passes through `fetch`. Part of the prelude.
 */
export function witness(): void {
  const fs = process.getBuiltinModule("node:fs");
  const original = globalThis.fetch;
  let count = 0;

  const say = (params: object): void => {
    try {
      fs.writeSync(1, `${JSON.stringify({ jsonrpc: "2.0", method: "_sluice/model", params })}\n`);
    } catch {
      // A log that cannot be written must not break what is logged.
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
    const hear = (line: string): void => {
      try {
        const value = JSON.parse(line.replace(/^data:\s*/, ""));
        const chunk = value.response ?? value;
        if (chunk.usageMetadata) usage = chunk.usageMetadata;
        for (const part of (chunk.candidates?.[0]?.content?.parts ?? []) as Part[]) {
          const { functionCall: call, text, thought = false } = part;
          if (call) say({ event: "call", id, call });
          // What it says itself comes by ACP; thoughts come there in pieces with a headline each.
          if (text && (thought || isAgent)) say({ event: "words", id, text, thought });
        }
      } catch {
        // Half a line, or none that we know.
      }
    };
    const isStream = response.headers.get("content-type")?.includes("event-stream");
    const watch = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        rest += decoder.decode(bytes, { stream: true });
        if (isStream) {
          const lines = rest.split("\n");
          rest = lines.pop() ?? "";
          for (const line of lines) if (line.startsWith("data:")) hear(line);
        }
        controller.enqueue(bytes);
      },
      flush() {
        if (rest.trim() !== "") hear(rest);
        say({ event: "response", id, usage });
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body?.pipeThrough(watch) ?? null, { status, statusText, headers });
  };

  globalThis.fetch = async (input, init) => {
    const url = typeof input === "string" ? input : input instanceof URL ? input.href : input.url;
    const found = /(?:models\/([^:/?]+))?:(?:stream)?[gG]enerateContent/.exec(url);
    if (!found || typeof init?.body !== "string") return original(input, init);
    const id = ++count;
    let isAgent = false;
    try {
      const body = readBody(init.body);
      const results = (body.contents?.at(-1)?.parts ?? []).flatMap((part) => part.functionResponse ?? []);
      const isSummary = JSON.stringify(body.systemInstruction ?? "").includes("state_snapshot");
      // Only sub-agents have a tool to say that they are done.
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
