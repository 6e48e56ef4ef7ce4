import type { Context } from "hono";
import {
  type InputList,
  InputList as InputListSchema,
  OrderInputs,
  ReplaceInput,
  SluiceError,
} from "../../../contract/index.ts";
import { toContent } from "../../../dialects/universal/index.ts";
import type { AppEnv } from "../../context.ts";
import { defineOperations, json, type Mount } from "../../operation.ts";
import { byPath } from "../../nodes/owner-rules.ts";

const IF_MATCH = { "If-Match": "the revision of the queue that the change expects" };
const ERRORS = ["session_not_found", "input_not_found", "input_not_waiting", "precondition_failed"] as const;
const list = {
  ...json("The queue; its revision is the ETag", InputListSchema),
  headers: { ETag: "the revision of the queue, for If-Match" },
};

export const inputOperations = defineOperations({
  listInputs: {
    method: "GET",
    path: "/v1/sessions/{id}/inputs",
    scope: "read",
    tag: "messages",
    summary: "The messages that wait for their turn, the next first (extension)",
    answer: list,
    errors: ["session_not_found"],
  },
  orderInputs: {
    method: "PUT",
    path: "/v1/sessions/{id}/inputs",
    scope: "control",
    owner: byPath,
    tag: "messages",
    summary: "Puts the messages that wait into another order; needs If-Match (extension)",
    headers: IF_MATCH,
    body: { kind: "json", schema: OrderInputs },
    answer: list,
    errors: ["invalid_request", "session_not_found", "precondition_failed", "too_large"],
  },
  replaceInput: {
    method: "PATCH",
    path: "/v1/sessions/{id}/inputs/{inputId}",
    scope: "control",
    owner: byPath,
    tag: "messages",
    summary: "Replaces the content of a message that waits (extension)",
    headers: IF_MATCH,
    body: { kind: "json", schema: ReplaceInput },
    answer: list,
    errors: ["invalid_request", ...ERRORS, "too_large"],
  },
  withdrawInput: {
    method: "DELETE",
    path: "/v1/sessions/{id}/inputs/{inputId}",
    scope: "control",
    owner: byPath,
    tag: "messages",
    summary: "Withdraws a message that waits; it gets no turn (extension)",
    headers: IF_MATCH,
    answer: list,
    errors: ERRORS,
  },
});

/** The queue of a session. */
export function mountInputs(mount: Mount): void {
  mount(inputOperations.listInputs, async ({ engine, c, param }) =>
    answer(c, await engine.inputs(param("id"))),
  );

  mount(inputOperations.orderInputs, async ({ engine, c, body, param }) => {
    const revision = revisionOf(c);
    if (c.req.header("if-match") === undefined)
      throw new SluiceError(
        "invalid_request",
        "If-Match is missing. Send the ETag of the queue whose order you change.",
      );
    return answer(c, await engine.changeQueue(param("id"), { kind: "reorder", ...body }, { revision }));
  });

  mount(inputOperations.replaceInput, async ({ engine, c, body, param }) => {
    const { options } = body;
    const change = { kind: "replace", inputId: param("inputId"), content: toContent(body), options } as const;
    return answer(c, await engine.changeQueue(param("id"), change, { revision: revisionOf(c) }));
  });

  mount(inputOperations.withdrawInput, async ({ engine, c, param }) => {
    const change = { kind: "withdraw", inputId: param("inputId") } as const;
    return answer(c, await engine.changeQueue(param("id"), change, { revision: revisionOf(c) }));
  });
}

function answer(c: Context<AppEnv>, inputs: InputList): Response {
  return c.json(inputs, 200, { etag: `"${inputs.revision}"` });
}

/** `*` means any revision. */
function revisionOf(c: Context<AppEnv>): string | undefined {
  const given = c.req.header("if-match")?.trim();
  return given === "*" ? undefined : given?.replace(/^W\//, "").replace(/^"(.*)"$/, "$1");
}
