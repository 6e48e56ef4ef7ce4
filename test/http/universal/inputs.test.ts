import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { InputList } from "../../../src/contract/index.ts";
import { ofType, readAll, script, waitFor } from "../../support/engine.ts";
import { codeOf, openApp, type AppBench } from "../app-bench.ts";

describe("the queue of a session", () => {
  let bench: AppBench;
  let names = 0;
  beforeAll(async () => void (bench = await openApp()));
  afterAll(() => bench.close());

  /** A session whose turn waits for an answer, with these messages behind it. */
  async function open(
    ...messages: string[]
  ): Promise<{ id: string; queue: InputList; answer: () => Promise<unknown> }> {
    const id = `q${++names}`;
    await bench.call("POST", `/v1/sessions/${id}`, { json: { agent: "scripted" } });
    await send(id, script({ ask: { shell: "true" } }));
    const { data } = await waitFor(bench.test.log, id, "permission.requested");
    for (const message of messages) await send(id, message);
    const answer = (): Promise<unknown> =>
      bench.call("POST", `/v1/sessions/${id}/permissions/${data.permission_id}/reply`, {
        json: { reply: "once" },
      });
    return { id, queue: await list(id), answer };
  }
  const send = (id: string, message: string): Promise<Response> =>
    bench.call("POST", `/v1/sessions/${id}/messages`, { json: { message } });
  const list = async (id: string): Promise<InputList> =>
    (await (await bench.call("GET", `/v1/sessions/${id}/inputs`)).json()) as InputList;
  const idle = async (id: string, turns: number): Promise<string[]> => {
    for (let after = 0; ;) {
      const ended = ofType(await readAll(bench.test.log, id), "turn.ended");
      if (ended.length >= turns) break;
      after = (await waitFor(bench.test.log, id, "turn.ended", { after })).sequence;
    }
    const events = await readAll(bench.test.log, id);
    return ofType(events, "item.completed")
      .filter(({ data }) => data.item.role === "user")
      .map(({ data }) => (data.item.content[0] as { text: string }).text);
  };

  it("is listed, edited, reordered and withdrawn, and each input that stays has one turn", async () => {
    const { id, queue, answer } = await open("a", "b", "c");
    expect(queue.inputs.map(({ message, position }) => [message, position])).toEqual([
      ["a", 0],
      ["b", 1],
      ["c", 2],
    ]);
    const edited = await bench.call("PATCH", `/v1/sessions/${id}/inputs/${at(queue, 1)}`, {
      json: { message: "B" },
    });
    expect(edited.status).toBe(200);
    const now = (await edited.json()) as InputList;
    expect(edited.headers.get("etag")).toBe(`"${now.revision}"`);
    const withdrawn = await bench.call("DELETE", `/v1/sessions/${id}/inputs/${at(queue, 0)}`);
    const { revision } = (await withdrawn.json()) as InputList;
    const ordered = await bench.call("PUT", `/v1/sessions/${id}/inputs`, {
      json: { order: [at(queue, 2), at(queue, 1)] },
      headers: { "if-match": `"${revision}"` },
    });
    expect(((await ordered.json()) as InputList).inputs.map(({ message }) => message)).toEqual(["c", "B"]);
    await answer();
    const [first, ...said] = await idle(id, 3);
    expect(first).toContain("#script");
    expect(said).toEqual(["c", "B"]);
    const events = await readAll(bench.test.log, id);
    const accepted = ofType(events, "input.accepted").map(({ data }) => data.turn_id);
    const started = ofType(events, "turn.started").map(({ data }) => data.turn_id);
    const gone = ofType(events, "input.withdrawn").map(({ data }) => data.turn_id);
    expect([...started, ...gone].toSorted()).toEqual(accepted.toSorted());
  });

  it("tells the loser of a race what has happened", async () => {
    const { id, queue, answer } = await open("a", "b");
    await answer();
    await idle(id, 3);
    const path = `/v1/sessions/${id}/inputs/${at(queue, 0)}`;
    expect(await codeOf(await bench.call("PATCH", path, { json: { message: "x" } }))).toBe(
      "input_not_waiting",
    );
    expect(await codeOf(await bench.call("DELETE", path))).toBe("input_not_waiting");
    expect(await codeOf(await bench.call("DELETE", `/v1/sessions/${id}/inputs/inp_none`))).toBe(
      "input_not_found",
    );
  });

  it("withdraws once: a resend answers the same, an edit is refused", async () => {
    const { id, queue, answer } = await open("a");
    const path = `/v1/sessions/${id}/inputs/${at(queue, 0)}`;
    const both = await Promise.all([bench.call("DELETE", path), bench.call("DELETE", path)]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect(ofType(await readAll(bench.test.log, id), "input.withdrawn")).toHaveLength(1);
    expect(await codeOf(await bench.call("PATCH", path, { json: { message: "x" } }))).toBe(
      "input_not_waiting",
    );
    await answer();
    expect(await idle(id, 1)).toHaveLength(1);
  });

  it("refuses an order without, or with another, revision, and one that is no permutation", async () => {
    const { id, queue, answer } = await open("a", "b");
    const path = `/v1/sessions/${id}/inputs`;
    const put = (order: string[], headers: Record<string, string>): Promise<Response> =>
      bench.call("PUT", path, { json: { order }, headers });
    const [a, b] = [at(queue, 0), at(queue, 1)];
    const match = { "if-match": `"${queue.revision}"` };
    expect(await codeOf(await put([b, a], {}))).toBe("invalid_request");
    expect(await codeOf(await put([b], match))).toBe("invalid_request");
    expect(await codeOf(await put([b, b], match))).toBe("invalid_request");
    expect(await codeOf(await put([b, "__proto__"], match))).toBe("invalid_request");
    await send(id, "c");
    expect(await codeOf(await put([b, a], match))).toBe("precondition_failed");
    await answer();
    await idle(id, 4);
  });

  it("decides a race with the start of the turn by the log", async () => {
    for (let round = 0; round < 8; round++) {
      const { id, queue, answer } = await open("a");
      const [withdrawn] = await Promise.all([
        bench.call("DELETE", `/v1/sessions/${id}/inputs/${at(queue, 0)}`),
        answer(),
      ]);
      const isWithdrawn = withdrawn.status === 200;
      if (!isWithdrawn) expect(withdrawn.status).toBe(409);
      await idle(id, isWithdrawn ? 1 : 2);
      const events = await readAll(bench.test.log, id);
      expect(ofType(events, "turn.started")).toHaveLength(isWithdrawn ? 1 : 2);
      expect(ofType(events, "input.withdrawn")).toHaveLength(isWithdrawn ? 1 : 0);
    }
  });

  it("ends the stream of a withdrawn message's turn", async () => {
    const { id, answer } = await open();
    const response = await bench.call("POST", `/v1/sessions/${id}/messages/stream`, {
      json: { message: "a" },
    });
    const queue = await list(id);
    await bench.call("DELETE", `/v1/sessions/${id}/inputs/${at(queue, 0)}`);
    expect(await response.text()).not.toContain("turn.started");
    await answer();
  });

  it("shows the new text of a replaced input in every dialect", async () => {
    const { id, queue, answer } = await open("the old text");
    await bench.call("PATCH", `/v1/sessions/${id}/inputs/${at(queue, 0)}`, {
      json: { message: "the new text" },
    });
    await answer();
    await idle(id, 2);
    for (const as of ["universal", "anthropic", "ag-ui", "ndjson", "content", "lifecycle"]) {
      const page = await (await bench.call("GET", `/v1/sessions/${id}/events?as=${as}&limit=1000`)).text();
      expect(page).not.toContain("the old text");
    }
    const page = await (await bench.call("GET", `/v1/sessions/${id}/events?as=anthropic&limit=1000`)).text();
    expect(page).toContain("the new text");
  });

  it("survives a restart of the server", async () => {
    const { id, queue } = await open("a", "b");
    await bench.call("PATCH", `/v1/sessions/${id}/inputs/${at(queue, 1)}`, { json: { message: "B" } });
    await bench.call("DELETE", `/v1/sessions/${id}/inputs/${at(queue, 0)}`);
    const before = await list(id);
    await bench.test.restart();
    expect(await bench.test.engine.inputs(id)).toEqual(before);
  });
});

function at({ inputs }: InputList, place: number): string {
  return inputs[place]?.inputId ?? "";
}
