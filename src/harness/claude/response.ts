/** The answer to what the CLI asked its host under this id. */
export function toResponse(id: string, response: unknown): string {
  return JSON.stringify({
    type: "control_response",
    response: { subtype: "success", request_id: id, response },
  });
}
