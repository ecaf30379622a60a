"""What `benchmarks.pipelines` compares with: the tables as Spark Declarative Pipelines."""
