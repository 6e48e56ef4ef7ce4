type Answers = readonly (readonly string[])[];

/** The choices for each of several questions. A client that knows of one question sends them as one list. */
export function splitAnswers(answers: Answers, count: number): Answers {
  const [first = []] = answers;
  const isOneList = count > 1 && answers.length === 1 && first.length === count;
  return isOneList ? first.map((choice) => [choice]) : answers;
}
